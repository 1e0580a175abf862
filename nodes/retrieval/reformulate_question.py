"""Further queries for the same question, in other words (Verma et al. 2025 leave this to future work).

A question and its documents may not share a word. A model's queries are searched in addition to the question,
never in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.core.context import Context
from nodes.core.facts import TEXT, plain
from nodes.core.json_reply import object_schema
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.core.wording import one_line
from nodes.retrieval.document_settings import DocumentSettings
from prompts import Contract
from serving.protocol.errors import InvalidReply
from serving.protocol.reply import ReplyFormat, first_json_object
from serving.protocol.request import Failure

QUERIES_REPLY = "queries"
"""Name of the reply's format, and of its field."""

_LONGEST = 300
"""Characters of a query."""


class ReformulateQuestionInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]


class ReformulateQuestionUpdate(TypedDict):
    """The question itself is the first of the queries."""

    queries: list[str]
    decisions: list[Decision]


async def reformulate_question(
    state: ReformulateQuestionInput, runtime: Runtime[Context]
) -> ReformulateQuestionUpdate:
    """Ask the `label` model for further queries; without them the question alone is searched for."""
    context = runtime.context
    settings = context.section(DocumentSettings)
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    messages = context.messages(
        "reformulate_question", {"question": one_line(question), "count": str(settings.reformulations)}
    )
    outcome = await context.ask("label", case.id, messages, queries_reply(settings.reformulations), settings)
    if isinstance(outcome, Failure):
        return {
            "queries": [question],
            "decisions": decision(
                "reformulate_question",
                "the question alone is searched for: the model gave no further queries",
                {
                    "further": 0,
                    "asked_for": settings.reformulations,
                    "error_class": outcome.error.error_class,
                },
                outcome.calls,
                flags=["no_reformulation", "failed_reformulation"],
            ),
        }
    further = new_queries(question, outcome.value)[: settings.reformulations]
    return {
        "queries": [question, *further],
        "decisions": decision(
            "reformulate_question",
            f"{len(further)} further queries of {settings.reformulations} asked for",
            {
                "queries": further,
                "further": len(further),
                "repeated": len(outcome.value) - len(further),
                "asked_for": settings.reformulations,
            },
            outcome.calls,
            flags=[] if further else ["no_reformulation"],
        ),
    }


def queries_reply(count: int) -> ReplyFormat[list[str]]:
    """The format `{"queries": ["...", "..."]}`."""
    queries = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    return ReplyFormat(QUERIES_REPLY, object_schema({QUERIES_REPLY: queries}), parse_queries)


def parse_queries(text: str) -> list[str]:
    """Read the queries, each on one line and none empty.

    Raises:
        InvalidReply: No JSON, or no list of texts.
    """
    found = first_json_object(text).get(QUERIES_REPLY)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidReply(f"{QUERIES_REPLY!r} must be a list of texts")
    return [line[:_LONGEST] for one in found if (line := one_line(one))]


def new_queries(question: str, queries: Sequence[str]) -> list[str]:
    """Those that repeat neither the question nor each other, letter case and marks at the end aside."""
    seen = {_bare(question)}
    kept = []
    for query in queries:
        if _bare(query) not in seen:
            seen.add(_bare(query))
            kept.append(query)
    return kept


def _bare(query: str) -> str:
    return one_line(query).casefold().rstrip(" ?.!")


REFORMULATE_QUESTION = NodeSpec(
    run=reformulate_question,
    sections=(DocumentSettings,),
    prompts=(
        Contract(
            name="reformulate_question", required=frozenset({"question"}), optional=frozenset({"count"})
        ),
    ),
    facts={
        "queries": TEXT,
        **plain("further", "repeated", "asked_for", "error_class"),
    },
    flags={
        "no_reformulation": "the model gave no further query; the question alone was searched for",
        "failed_reformulation": "no usable reply came when the model was asked for queries",
    },
    impairs=("failed_reformulation",),
    is_off=lambda recipe: not recipe.section(DocumentSettings).reformulates,
)
