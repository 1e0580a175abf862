"""Which of the twelve intents a question has (TAMU 2026, section 4.2.1)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import INTENTS, RISK_LEVELS
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.records import Decision, IntentChoice, decision
from nodes.core.wording import case_variables
from serving.ask import Ask, Failure
from serving.errors import InvalidReply
from serving.messages import Message
from serving.reply import ReplyFormat, first_json_object

_NONE = "none"
_UNCLASSIFIED = IntentChoice(primary=None, secondary=None, risk_level="moderate")


class ClassifyIntentInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]


class ClassifyIntentUpdate(TypedDict):
    """What the node owns."""

    intent: IntentChoice
    decisions: list[Decision]


def parse_intent(text: str) -> IntentChoice:
    """Read a reply strictly.

    Raises:
        InvalidReply: No JSON, or a value outside the taxonomy.
    """
    reply = first_json_object(text)
    for field, allowed in (("primary", tuple(INTENTS)), ("risk_level", RISK_LEVELS)):
        if reply.get(field) not in allowed:
            raise InvalidReply(f"{field!r} must be one of {', '.join(allowed)}")
    if _absent(reply.get("secondary")) not in (None, *INTENTS):
        raise InvalidReply("'secondary' must be an intent of the list, or none")
    return tidy_intent(reply)


def rescue_intent(text: str) -> IntentChoice:
    """Read a reply that stays outside the taxonomy: what is unknown becomes None or moderate."""
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
    schema={
        "type": "object",
        "properties": {
            "primary": {"type": "string", "enum": list(INTENTS)},
            "secondary": {"type": "string", "enum": [_NONE, *INTENTS]},
            "risk_level": {"type": "string", "enum": list(RISK_LEVELS)},
        },
        "required": ["primary", "secondary", "risk_level"],
        "additionalProperties": False,
    },
    parse=parse_intent,
    rescue=rescue_intent,
)


async def classify_intent(state: ClassifyIntentInput, runtime: Runtime[Context]) -> ClassifyIntentUpdate:
    """Ask the `classify` model; a reply outside the taxonomy leaves the intent open, and says so."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    variables = case_variables(case, state.get("patient_question", case.question))
    variables["intents"] = "\n".join(f"- {name}: {meaning}" for name, meaning in INTENTS.items())
    turns = context.prompts["classify_intent"].render(variables)
    (outcome,) = await context.client.ask(
        Ask(
            role="classify",
            case_id=case.id,
            messages=tuple(Message(role, text) for role, text in turns),
            reply=INTENT_REPLY,
            temperature=context.settings.intent.temperature,
            max_tokens=context.settings.intent.max_tokens,
            seed=context.settings.seed,
        )
    )
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
