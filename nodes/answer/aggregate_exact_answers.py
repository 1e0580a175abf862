"""One exact answer from the votes on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from langgraph.runtime import Runtime

from cases.biomedical import QuestionType
from cases.texts import plural
from nodes.answer.exact_reply import MAX_ENTRIES, Exact, ExactSettings, demand_type, exact_words
from nodes.core.context import Context
from nodes.core.facts import TEXT, plain, withheld
from nodes.core.node import Column, NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.retrieval.document_records import ExactVote
from nodes.retrieval.document_settings import DocumentSettings

_DIGITS = 4
# Shares such as 2 of 3 against a threshold of 0.6667 must not depend on the last bits.
_TOLERANCE = 1e-9


class EntryCount(TypedDict):
    """An entry, how many votes name it, and the sum of 1/rank over them."""

    entry: str
    votes: int
    score: float


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Result of the votes.

    Attributes:
        answer: Of all votes.
        entries: Of factoids and lists, in the order that decides; more than the answer keeps.
        yes: Votes for yes.
        no: Votes for no.
        tied: Whether as many votes say yes as no.
        disagreed: Whether no entry of a list had enough votes.
    """

    answer: Exact
    entries: list[EntryCount] = field(default_factory=list)
    yes: int = 0
    no: int = 0
    tied: bool = False
    disagreed: bool = False


def aggregate(votes: Sequence[Exact], type_: QuestionType, threshold: float) -> Aggregated:
    """Count votes; a single one passes through.

    Yes or no: the majority, and yes where as many say the one as the other. A factoid: entries by the sum of
    1/rank over the votes, the five best. A list: entries that at least `threshold` of the votes name, those
    of most votes first; where no entry has so many, the entries of the first vote. Entries are the same
    that differ in case and white space alone; ties stay in the order in which they were first named.

    Args:
        votes: At least one; all of the question's type.
        type_: Of the question, not `summary`.
        threshold: Share of the votes, above 0 and at most 1.
    """
    if type_ == "yesno":
        yes, no = votes.count("yes"), votes.count("no")
        return Aggregated("yes" if yes >= no else "no", yes=yes, no=no, tied=yes == no)
    named = [[synonyms[0] for synonyms in vote] for vote in votes if not isinstance(vote, str)]
    counts = count_entries(named)
    if type_ == "factoid":
        # Of one vote this is its own order: 1/rank falls.
        ranked = sorted(counts, key=lambda one: -one["score"])
        return Aggregated(_answer([one["entry"] for one in ranked], type_), ranked)
    ranked = sorted(counts, key=lambda one: -one["votes"])
    kept = [one["entry"] for one in ranked if one["votes"] >= threshold * len(named) - _TOLERANCE]
    return Aggregated(_answer(kept or named[0], type_), ranked, disagreed=not kept)


def count_entries(votes: Sequence[Sequence[str]]) -> list[EntryCount]:
    """Votes and reciprocal ranks of each entry, in the order in which they were first named."""
    spelled: dict[str, str] = {}
    count: dict[str, int] = defaultdict(int)
    score: dict[str, float] = defaultdict(float)
    for vote in votes:
        ranks: dict[str, int] = {}
        for rank, entry in enumerate(vote, 1):
            ranks.setdefault(_same(entry), rank)
            spelled.setdefault(_same(entry), entry)
        for key, rank in ranks.items():
            count[key] += 1
            score[key] += 1 / rank
    return [
        EntryCount(entry=entry, votes=count[key], score=round(score[key], _DIGITS))
        for key, entry in spelled.items()
    ]


def _same(entry: str) -> str:
    return " ".join(entry.split()).casefold()


def _answer(entries: Sequence[str], type_: QuestionType) -> list[list[str]]:
    return [[entry] for entry in entries[: MAX_ENTRIES[type_]]]


class AggregateExactAnswersInput(TypedDict):
    case_id: str
    exact_votes: list[ExactVote]


class AggregateExactAnswersUpdate(TypedDict):
    exact_answer: Exact
    decisions: list[Decision]


async def aggregate_exact_answers(
    state: AggregateExactAnswersInput, runtime: Runtime[Context]
) -> AggregateExactAnswersUpdate:
    """Count the votes that have an answer."""
    context = runtime.context
    settings = context.section(ExactSettings)
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
    return {
        "exact_answer": result.answer,
        "decisions": decision(
            "aggregate_exact_answers",
            _because(result, type_, len(votes), settings.threshold),
            facts,
            flags=raised(tied_votes=result.tied, no_agreed_entry=result.disagreed),
        ),
    }


def _because(result: Aggregated, type_: QuestionType, votes: int, threshold: float) -> str:
    if type_ == "yesno":
        tie = ", and a tie is yes" if result.tied else ""
        return f"{result.answer}: {result.yes} say yes, {result.no} no{tie}"
    kept = plural(len(result.answer), "entry")
    if votes == 1:
        return f"{kept} of the only vote"
    named = f"of {len(result.entries)} named by {plural(votes, 'vote')}"
    if type_ == "factoid":
        return f"{kept} {named}, by the sum of 1/rank"
    if result.disagreed:
        return f"none {named} is in {threshold:g} of them: {kept} of the first vote instead"
    return f"{kept} {named}, in at least {threshold:g} of them"


def _answer_in_words(line: Mapping[str, Any]) -> str:
    """An answer in words; a tie is marked, whatever it counts as."""
    answer = exact_words(line["exact_answer"])
    return f"{answer} (a tie)" if answer and "tied_votes" in line["flags"] else answer


AGGREGATE_EXACT_ANSWERS = NodeSpec(
    run=aggregate_exact_answers,
    sections=(ExactSettings,),
    results={"exact_answer": withheld},
    columns={"exact answer": Column(_answer_in_words)},
    facts={
        # Entries are a model's words.
        "entries": TEXT,
        **plain("question_type", "usable_votes", "yes_votes", "no_votes", "kept_entries", "share"),
    },
    flags={
        "tied_votes": "as many votes say yes as no, and a tie is yes",
        "no_agreed_entry": "no entry was in enough votes, so the list of the first vote is used",
    },
    is_off=lambda recipe: not recipe.section(DocumentSettings).answers,
)
