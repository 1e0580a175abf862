"""Texts of a case: the message with its focus phrases, and each note sentence with label, votes and key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cases.records import Case, Phrase, Sentence
from cases.texts import plural
from runs.record.trace_file import Line
from viewer.case_parts.answers import Answer
from viewer.case_parts.ballots import Ballot

CallLink = Callable[[str], str | None]

_MAX_ROWS = 20_000
_SETTINGS = {
    "threshold": "threshold: enough votes",
    "high_recall": "high recall: any vote",
    "low_recall": "low recall: all votes but one",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the message; `marked` if a focus phrase covers it."""

    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class MarkedText:
    """The whole message in order, and phrases that do not occur in it."""

    segments: list[Segment]
    unplaced: list[str]


def mark_phrases(narrative: str, phrases: Sequence[Phrase]) -> MarkedText:
    """Mark phrases at their start index, else where their text first occurs. They may overlap."""
    text = narrative.strip()
    spans: list[tuple[int, int]] = []
    unplaced: list[str] = []
    for phrase in phrases:
        words = phrase.text.strip()
        start = _place(text, words, phrase.start_char_index)
        if start < 0 or not words:
            unplaced.append(phrase.text)
        else:
            spans.append((start, start + len(words)))
    segments: list[Segment] = []
    done = 0
    for start, end in _merged(spans):
        segments.append(Segment(text[done:start], False))
        segments.append(Segment(text[start:end], True))
        done = end
    segments.append(Segment(text[done:], False))
    return MarkedText([one for one in segments if one.text], unplaced)


def _place(text: str, words: str, start: int | None) -> int:
    if start is not None and start >= 0 and text.startswith(words, start):
        return start
    return text.find(words)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


@dataclass(frozen=True, slots=True)
class VoteRow:
    """One vote on one sentence; links lead to prompts and replies."""

    name: str
    before: str
    after: str
    fault: str
    links: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Citing:
    """A sentence of an answer that is based on a note sentence."""

    index: int
    words: str


@dataclass(frozen=True, slots=True)
class NoteSentence:
    """One sentence of the note.

    Attributes:
        index: Its position; ids are data and never become ids of HTML elements.
        text: None where texts are missing.
        label: `essential`, `not-essential`, or None if the case was not labelled.
        changes: `added` or `dropped` by name of the vote.
        named: Votes that call it essential in the end, in words.
        named_first: Votes that called it essential before reflection, in words.
        right: Whether the label matches the key, with supplementary as not essential (strict).
        confidence: Mean P(essential) of the votes.
        by_rule: P(essential) by a calibrated rule.
        log_odds: Of the model, where it was asked for each sentence by itself.
        found: Its rank among the sentences that were retrieved; None if it was not.
        settings: Evidence settings that include it, in words.
        in_answer: Whether the answer is based on it.
        cited_by: Answer sentences that are based on it.
        rows: One for each vote; empty if there are too many for a page.
    """

    index: int
    id: str
    text: str | None
    begins: bool
    label: str | None
    count: int | None
    changes: dict[str, str]
    named: str
    named_first: str
    key: str | None
    right: bool | None
    confidence: float | None
    by_rule: float | None
    log_odds: float | None
    score: float | None
    found: int | None
    settings: list[str]
    in_answer: bool
    cited_by: list[Citing]
    rows: list[VoteRow]


def read_note(
    line: Line,
    case: Case | None,
    ballots: Sequence[Ballot],
    answers: Sequence[Answer],
    link: CallLink,
    judged: Line | None = None,
) -> list[NoteSentence]:
    """Every sentence in note order; only ids if the texts are missing. `judged` is as from `read_rule`."""
    sentences = case.sentences if case else tuple(Sentence(id_, "") for id_ in line["labels"])
    evidence = {name: set(ids) for name, ids in (line.get("evidence") or {}).items()}
    built_on = set(line.get("answer_evidence") or ())
    keys = (case.gold.labels if case else None) or {}
    citing = _citing(answers)
    ranks = {one["id"]: rank for rank, one in enumerate(line.get("retrieved") or (), start=1)}
    links = [[] if ballot.sentence_calls else _links(ballot, link) for ballot in ballots]
    detailed = len(sentences) * len(ballots) <= _MAX_ROWS
    found = []
    for index, sentence in enumerate(sentences):
        id_ = sentence.id
        label, key = line["labels"].get(id_), keys.get(id_)
        before = sentences[index - 1].paragraph_id if index else sentence.paragraph_id
        found.append(
            NoteSentence(
                index=index,
                id=id_,
                text=sentence.text if case else None,
                begins=sentence.paragraph_id != before,
                label=label,
                count=_of(line, "vote_counts", id_),
                changes={_name(one): change for one in ballots if (change := one.change(id_))},
                named=", ".join(_name(one) for one in ballots if one.names(id_)),
                named_first=", ".join(_name(one) for one in ballots if one.before and id_ in one.before),
                key=key,
                right=None if not key or not label else (label == "essential") == (key == "essential"),
                confidence=_of(line, "label_confidence", id_),
                by_rule=_of(judged or {}, "probabilities", id_),
                log_odds=_of(line, "model_scores", id_),
                score=_of(line, "ranker_scores", id_),
                found=ranks.get(id_),
                settings=[_SETTINGS.get(name, name) for name, ids in evidence.items() if id_ in ids],
                in_answer=id_ in built_on,
                cited_by=citing.get(index, []),
                rows=[
                    _row(one, id_, _own_links(one, id_, link) if one.sentence_calls else links[place])
                    for place, one in enumerate(ballots)
                ]
                if detailed
                else [],
            )
        )
    return found


def _of(line: Line, name: str, id_: str) -> Any:
    return (line.get(name) or {}).get(id_)


def _name(ballot: Ballot) -> str:
    return "the ranker" if ballot.ranker else f"vote {ballot.vote}"


def _links(ballot: Ballot, link: CallLink) -> list[tuple[str, str]]:
    named = [(key, "first reply") for key in ballot.first_calls]
    named += [(key, "reflection") for key in ballot.reflection_calls]
    return [(address, words) for key, words in named if (address := link(key)) is not None]


def _own_links(ballot: Ballot, id_: str, link: CallLink) -> list[tuple[str, str]]:
    """To the calls that asked for this sentence by itself."""
    keys = ballot.sentence_calls.get(id_, ())
    return [(address, "question and reply") for key in keys if (address := link(key)) is not None]


def _row(ballot: Ballot, id_: str, links: list[tuple[str, str]]) -> VoteRow:
    name = _name(ballot)
    if ballot.weight > 1:
        name += f" (counts {plural(ballot.weight, 'time')})"
    unweighed = ballot.weighed is not None and id_ not in ballot.weighed
    before = "missing" if unweighed else _label_of(ballot.before, id_)
    return VoteRow(name, before, _after(ballot, id_), ballot.fault, links)


def _label_of(named: frozenset[str] | None, id_: str) -> str:
    if named is None:
        return "missing"
    return "essential" if id_ in named else "not essential"


def _after(ballot: Ballot, id_: str) -> str:
    if ballot.after is None:
        return "no reflection"
    change = ballot.change(id_)
    return _label_of(ballot.after, id_) + (f" ({change})" if change else "")


def _citing(answers: Sequence[Answer]) -> Mapping[int, list[Citing]]:
    found: dict[int, list[Citing]] = {}
    # Where every answer sentence is based on all evidence, listing each would say nothing.
    for answer in (one for one in answers if one.basis != "evidence"):
        for sentence in answer.sentences:
            for support in sentence.support:
                if support.index is not None:
                    words = f"sentence {sentence.label} of {answer.title.lower()}"
                    found.setdefault(support.index, []).append(Citing(sentence.index, words))
    return found
