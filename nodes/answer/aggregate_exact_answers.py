"""One exact answer from the votes on it."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.runtime import Runtime

from cases.biomedical import QuestionType
from nodes.answer.biomedical_records import ExactVote
from nodes.answer.exact_counts import Aggregated, aggregate
from nodes.answer.exact_reply import Exact
from nodes.core.context import Context
from nodes.core.records import Decision, decision
from nodes.question.question_type import demand_type


class AggregateExactAnswersInput(TypedDict):
    """What the node reads."""

    case_id: str
    exact_votes: list[ExactVote]


class AggregateExactAnswersUpdate(TypedDict):
    """What the node owns."""

    exact_answer: Exact
    decisions: list[Decision]


async def aggregate_exact_answers(
    state: AggregateExactAnswersInput, runtime: Runtime[Context]
) -> AggregateExactAnswersUpdate:
    """Count the votes that have an answer."""
    context = runtime.context
    settings = context.settings.exact
    type_ = demand_type(context.cases[state["case_id"]])
    votes = [vote["answer"] for vote in state["exact_votes"] if vote["answer"] is not None]
    result = aggregate(votes, type_, settings.threshold)
    facts: dict[str, Any] = {"question_type": type_, "usable_votes": len(votes)}
    if type_ == "yesno":
        facts |= {"yes_votes": result.yes, "no_votes": result.no}
    else:
        facts |= {"entries": result.entries, "kept_entries": len(result.answer)}
    if type_ == "list":
        facts["share"] = settings.threshold
    raised = {"tied_votes": result.tied, "no_agreed_entry": result.disagreed}
    return {
        "exact_answer": result.answer,
        "decisions": decision(
            "aggregate_exact_answers",
            _because(result, type_, len(votes), settings.threshold),
            facts,
            flags=[name for name, so in raised.items() if so],
        ),
    }


def _because(result: Aggregated, type_: QuestionType, votes: int, threshold: float) -> str:
    if type_ == "yesno":
        tie = ", and a tie is yes" if result.tied else ""
        return f"{result.answer}: {result.yes} say yes, {result.no} no{tie}"
    kept = len(result.answer)
    if votes == 1:
        return f"{kept} entries of the only vote"
    named = f"of {len(result.entries)} that {votes} votes name"
    if type_ == "factoid":
        return f"{kept} entries {named}, by the sum of 1/rank"
    if result.disagreed:
        return f"none {named} is in {threshold:g} of them: the {kept} entries of the first vote stand"
    return f"{kept} entries {named} are in at least {threshold:g} of them"
