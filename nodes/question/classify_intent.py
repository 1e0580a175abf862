"""Which of the twelve intents a question has (TAMU 2026, section 4.2.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NotRequired, TypedDict

from langgraph.runtime import Runtime
from pydantic import Field

from cases.records import INTENTS, RISK_LEVELS, Case
from nodes.core.context import Context
from nodes.core.facts import plain, whole
from nodes.core.failure import NodeFailure
from nodes.core.json_reply import choice_schema, object_schema, read_choice
from nodes.core.node import NodeSpec
from nodes.core.recipe import RecipeSection
from nodes.core.records import Decision, IntentChoice, decision
from nodes.core.wording import case_variables
from nodes.retrieval.demonstration_search import POOL
from prompts import Contract
from retrieval.pools.compared import evidence_text
from retrieval.pools.pool import DemonstrationPool
from serving.protocol.errors import CallError, InvalidReply
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import Failure

_NONE = "none"
_UNCLASSIFIED = IntentChoice(primary=None, secondary=None, risk_level="moderate")


class IntentSettings(RecipeSection):
    """Intent classification."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(96, ge=16)


class ClassifyIntentInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]


class ClassifyIntentUpdate(TypedDict):
    intent: IntentChoice
    decisions: list[Decision]


def parse_intent(text: str) -> IntentChoice:
    """Read a reply strictly.

    Raises:
        InvalidReply: No JSON, or a value outside the taxonomy.
    """
    reply = first_json_object(text)
    read_choice(reply, "primary", INTENTS)
    read_choice(reply, "risk_level", RISK_LEVELS)
    if _absent(reply.get("secondary")) not in (None, *INTENTS):
        raise InvalidReply("'secondary' must be an intent of the list, or none")
    return tidy_intent(reply)


def fallback_intent(text: str) -> IntentChoice:
    """Read a reply outside the taxonomy: unknown values become None or moderate."""
    return tidy_intent(first_json_object(text))


def tidy_intent(reply: dict[str, Any]) -> IntentChoice:
    """Unknown intents to None, a secondary that repeats the primary to None, unknown risk to moderate."""
    primary = _known(reply.get("primary"), INTENTS)
    secondary = _known(reply.get("secondary"), INTENTS)
    return IntentChoice(
        primary=primary,
        secondary=None if secondary == primary else secondary,
        risk_level=_known(reply.get("risk_level"), RISK_LEVELS) or "moderate",
    )


INTENT_REPLY = ReplyFormat(
    name="intent",
    schema=object_schema(
        {
            "primary": choice_schema(INTENTS),
            "secondary": choice_schema([_NONE, *INTENTS]),
            "risk_level": choice_schema(RISK_LEVELS),
        }
    ),
    parse=parse_intent,
    fallback=fallback_intent,
)


async def classify_intent(state: ClassifyIntentInput, runtime: Runtime[Context]) -> ClassifyIntentUpdate:
    """Ask the `classify` model; a reply outside the taxonomy leaves the intent open, with a flag."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    variables = case_variables(case, state.get("patient_question", case.question))
    variables["intents"] = "\n".join(f"- {name}: {meaning}" for name, meaning in INTENTS.items())
    messages = context.messages("classify_intent", variables)
    outcome = await context.ask("classify", case.id, messages, INTENT_REPLY, context.section(IntentSettings))
    if isinstance(outcome, Failure):
        if outcome.error.error_class != "invalid_output":
            raise NodeFailure.of(outcome)
        intent, because = _UNCLASSIFIED, f"no usable reply ({outcome.error}); demonstrations go by similarity"
    else:
        intent = outcome.value
        because = _because(intent)
    return {
        "intent": intent,
        "decisions": decision(
            "classify_intent",
            because,
            dict(intent),
            outcome.calls,
            flags=[] if intent["primary"] else ["intent_unclassified"],
        ),
    }


def _because(intent: IntentChoice) -> str:
    if intent["primary"] is None:
        return "the model named no intent of the taxonomy; demonstrations go by similarity"
    second = f", then {intent['secondary']}" if intent["secondary"] else ""
    return f"the model reads the question as {intent['primary']}{second}, risk {intent['risk_level']}"


def _known(value: object, names: Collection[str]) -> str | None:
    return value if isinstance(value, str) and value in names else None


def _absent(value: object) -> object:
    return None if value in (None, "", _NONE, "null") else value


async def likely_intent(case: Case, tools: Mapping[str, Any]) -> Mapping[str, str]:
    """For a dry run: the intent of the nearest case leads to answer demonstrations of likely length."""
    pool: DemonstrationPool | None = tools.get(POOL.name)
    if pool is None:
        return {}
    try:
        nearest = await pool.nearest("evidence", evidence_text(case), 1, excluded=pool.twins(case))
    except CallError:
        # The case will meet the same failure, and report it.
        return {}
    if not nearest:
        return {}
    return {"primary": nearest[0].intent or "", "secondary": nearest[0].secondary_intent or _NONE}


CLASSIFY_INTENT = NodeSpec(
    run=classify_intent,
    sections=(IntentSettings,),
    prompts=(
        Contract(
            name="classify_intent",
            required=frozenset({"narrative", "question"}),
            optional=frozenset({"intents"}),
        ),
    ),
    results={"intent": whole},
    facts=plain("primary", "secondary", "risk_level"),
    flags={"intent_unclassified": "the model named no known intent; demonstrations go by similarity"},
)
