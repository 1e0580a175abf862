"""A question of BioASQ: its snippets by document, its exact answer with votes, and what experts said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cases.biomedical import ExactAnswer
from cases.records import Case
from cases.texts import plural
from nodes.answer.exact_reply import exact_words
from runs.record.trace_file import Line


@dataclass(frozen=True, slots=True)
class ShownSnippet:
    """A snippet; `text` is None without texts, `place` is its position in the document."""

    text: str | None
    place: str


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document of a ranking, or with the snippets of it.

    Attributes:
        relevant: Whether experts chose it; None where they chose none.
        rank: Its place, None for one that is there for its snippets.
        score: None where the ranking gives places alone.
    """

    id: str
    relevant: bool | None
    rank: int | None = None
    score: float | None = None
    snippets: Sequence[ShownSnippet] = ()


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry of an exact answer.

    Attributes:
        text: Yes, no, or its first synonym.
        counted: Votes for it in words; empty where there were none, or a single vote.
        right: Whether experts have it, letter by letter but for case; None without a key.
    """

    text: str
    counted: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class ShownVote:
    """One vote in words; `fault` says why it is missing."""

    number: int
    text: str
    fault: str


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question as shown on a page.

    Attributes:
        type: `yesno`, `factoid`, `list`, `summary`, or empty where the case gives none.
        documents: With their snippets, in the order of the first one.
        ranking: Best first; empty where nothing was searched for.
        missed: Documents that experts chose and the ranking has not; None without a ranking or a key.
        votes: Empty for a single one that came back.
        key: What experts gave as the exact answer, an entry with its synonyms each.
    """

    type: str
    documents: list[ShownDocument]
    ranking: list[ShownDocument]
    missed: int | None
    entries: list[ShownEntry]
    votes: list[ShownVote]
    key: list[str]
    ideal_answers: Sequence[str]

    @property
    def snippet_count(self) -> int:
        return sum(len(one.snippets) for one in self.documents)


def read_question(line: Line, case: Case | None, steps: Iterable[Line]) -> ShownQuestion | None:
    """Read a run's results for a BioASQ question; None for any other case."""
    asked = case.biomedical if case else None
    found, ranked = line.get("snippets"), line.get("document_ranking")
    if asked is None and found is None and ranked is None:
        return None
    relevant = frozenset(asked.documents) if asked else frozenset()
    facts = [step.get("facts") or {} for step in steps]
    counted = next((one for one in facts if {"question_type", "usable_votes"} <= one.keys()), {})
    asked_for = next((one for one in facts if "exact_votes" in one), {})
    ranking = [
        ShownDocument(one["id"], _is_in(one["id"], relevant), one["rank"], one["score"])
        for one in ranked or ()
    ]
    gold = case.gold.exact_answer if case else None
    return ShownQuestion(
        type=(asked.type if asked else None) or counted.get("question_type", ""),
        documents=_by_document(found or (), relevant),
        ranking=ranking,
        missed=len(relevant - {one.id for one in ranking}) if ranking and relevant else None,
        entries=_entries(line.get("exact_answer"), counted, gold),
        votes=_votes(asked_for),
        key=key_entries(gold),
        ideal_answers=(case.gold.ideal_answers if case else None) or (),
    )


def key_entries(gold: ExactAnswer | None) -> list[str]:
    """The exact answer of experts, an entry with its synonyms each."""
    if gold is None:
        return []
    return [gold] if isinstance(gold, str) else [" = ".join(synonyms) for synonyms in gold]


def _is_in(id_: str, relevant: frozenset[str]) -> bool | None:
    return id_ in relevant if relevant else None


def _by_document(snippets: Iterable[Mapping[str, Any]], relevant: frozenset[str]) -> list[ShownDocument]:
    groups: dict[str, list[ShownSnippet]] = {}
    for one in snippets:
        place = one["section"]
        if one["begin"] is not None and one["end"] is not None:
            place = f"{place or 'text'}, {one['begin']:,} to {one['end']:,}"
        groups.setdefault(one["document"], []).append(ShownSnippet(one["text"] or None, place))
    return [
        ShownDocument(document, _is_in(document, relevant), snippets=shown)
        for document, shown in groups.items()
    ]


def _entries(
    answer: str | list[list[str]] | None, facts: Mapping[str, Any], gold: ExactAnswer | None
) -> list[ShownEntry]:
    if answer is None:
        return []
    usable = facts.get("usable_votes")
    if isinstance(answer, str):
        votes = facts.get(f"{answer}_votes")
        return [ShownEntry(answer, _counted(votes, usable), None if gold is None else answer == gold)]
    counts = {one["entry"]: one for one in facts.get("entries", ())}
    known = (
        None
        if gold is None or isinstance(gold, str)
        else {text.lower() for synonyms in gold for text in synonyms}
    )
    shown = []
    for synonyms in answer:
        count = counts.get(synonyms[0], {})
        counted = _counted(count.get("votes"), usable)
        if counted and facts.get("question_type") == "factoid":
            counted += f", score {count['score']:g}"
        right = None if known is None else synonyms[0].lower() in known
        shown.append(ShownEntry(synonyms[0], counted, right))
    return shown


def _counted(votes: int | None, usable: int | None) -> str:
    return "" if votes is None or usable in (None, 1) else f"{votes} of {plural(usable, 'vote')}"


def _votes(facts: Mapping[str, Any]) -> list[ShownVote]:
    votes = facts.get("exact_votes") or ()
    failed = facts.get("failed_votes") or {}
    if len(votes) == 1 and not failed:
        return []
    return [
        ShownVote(one["sample"], exact_words(one["answer"]), failed.get(str(one["sample"]), ""))
        for one in votes
    ]
