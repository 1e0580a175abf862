"""Answers sentence by sentence, each with the supporting note sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from cases.records import Case
from nodes.verification.support import marked_answer
from runs.record.trace_file import Line

Basis = Literal["alignment", "citations", "evidence", "key", "nearest", "none", "verification"]

_CITED = re.compile(r"\|([^|\n]{1,200})\|")
_BETWEEN_IDS = re.compile(r"[,;\s]+")
_WORDS: dict[Basis, str] = {
    "alignment": "Each sentence with its support in the alignment.",
    "citations": "Each sentence with its citations.",
    "evidence": "No alignment: every sentence was written on the whole evidence.",
    "key": "Each sentence with its citations by the key.",
    "nearest": "No model wrote this. The nearest sentences of the note are linked.",
    "none": "",
    "verification": "Each sentence with what supports or contradicts it, by verification.",
}


@dataclass(frozen=True, slots=True)
class Support:
    """A note sentence behind an answer sentence; `index` is None for an id that the note does not have."""

    id: str
    index: int | None


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer.

    Attributes:
        index: Unique among the answer sentences of the page.
        label: Its id, or its number.
        support: Supporting sentences, by the run's alignment if any.
        by_key: Citations of the key; None without any, or if `support` is these.
        mark: Why it is not supported, in words; empty for one that is, or that was not verified.
    """

    index: int
    label: str
    text: str
    support: list[Support]
    by_key: list[Support] | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; `basis` says where its links come from."""

    title: str
    basis: Basis
    sentences: list[AnswerSentence]

    @property
    def words(self) -> str:
        return _WORDS[self.basis]


def read_answers(line: Line, case: Case | None, positions: Mapping[str, int]) -> list[Answer]:
    """The answer of the run, then the clinician's; each only if there is one."""
    numbers = count()
    found = []
    if line.get("answer"):
        found.append(_generated(line, positions, numbers))
    clinician = _clinician(line, case, positions, numbers)
    return [*found, clinician] if clinician else found


def _generated(line: Line, positions: Mapping[str, int], numbers: count[int]) -> Answer:
    title = "The run's answer"
    marked = marked_answer(line)
    if line.get("alignment") and line.get("aligned_answer") == "generated":
        aligned = _aligned(line, positions, numbers)
        if not line.get("answer_support"):
            return Answer(title, "alignment", aligned)
        pairs = zip(aligned, marked, strict=True)
        return Answer(title, "alignment", [replace(one, mark=other.mark) for one, other in pairs])
    if line.get("answer_status"):
        verified = [
            AnswerSentence(
                next(numbers), str(number), one.text, _support(one.sentence_ids, positions), mark=one.mark
            )
            for number, one in enumerate(marked, 1)
        ]
        return Answer(title, "nearest" if line["answer_status"] == "not_stated" else "verification", verified)
    cited = split_by_citations(line["answer"], positions)
    basis: Basis = "citations"
    if cited is None:
        evidence = list(line.get("answer_evidence") or ())
        cited = [(text, evidence) for text in _sentences(line["answer"])]
        basis = "evidence" if evidence else "none"
    sentences = [
        AnswerSentence(next(numbers), str(number), text, _support(ids, positions))
        for number, (text, ids) in enumerate(cited, 1)
    ]
    return Answer(title, basis, sentences)


def _clinician(
    line: Line, case: Case | None, positions: Mapping[str, int], numbers: count[int]
) -> Answer | None:
    title = "The clinician's answer"
    known = (case.gold.answer_sentences if case else None) or ()
    if line.get("alignment") and line.get("aligned_answer") == "clinician":
        keys = {one.id: one.citations for one in known}
        return Answer(title, "alignment", _aligned(line, positions, numbers, keys))
    if known:
        cited = any(one.citations is not None for one in known)
        sentences = [
            AnswerSentence(next(numbers), one.id, one.text, _support(one.citations or (), positions))
            for one in known
        ]
        return Answer(title, "key" if cited else "none", sentences)
    if case is None or not case.gold.answer:
        return None
    plain = [
        AnswerSentence(next(numbers), str(number), text, [])
        for number, text in enumerate(_sentences(case.gold.answer), 1)
    ]
    return Answer(title, "none", plain)


def _aligned(
    line: Line,
    positions: Mapping[str, int],
    numbers: count[int],
    keys: Mapping[str, Sequence[str] | None] | None = None,
) -> list[AnswerSentence]:
    made = []
    for one in line["answer_sentences"]:
        by_key = (keys or {}).get(one["id"])
        support = _support(line["alignment"].get(one["id"], ()), positions)
        made.append(
            AnswerSentence(
                next(numbers),
                one["id"],
                one["text"],
                support,
                None if by_key is None else _support(by_key, positions),
            )
        )
    return made


def split_by_citations(text: str, known: Mapping[str, int]) -> list[tuple[str, list[str]]] | None:
    """Parts of an answer that end in `|1,2|`, with the ids; None where it cites nothing that is known."""
    parts: list[tuple[str, list[str]]] = []
    done = 0
    for match in _CITED.finditer(text):
        ids = [id_ for id_ in _BETWEEN_IDS.split(match[1].strip()) if id_]
        if ids and all(id_ in known for id_ in ids):
            parts.append((text[done : match.start()].strip(), ids))
            done = match.end()
    if not parts:
        return None
    rest = text[done:].strip(" \n.")
    return [*parts, (text[done:].strip(), [])] if rest else parts


def _support(ids: Sequence[str], positions: Mapping[str, int]) -> list[Support]:
    return [Support(id_, positions.get(id_)) for id_ in ids]


def _sentences(text: str) -> list[str]:
    import sentencex

    return [one.strip() for one in sentencex.segment("en", text) if one.strip()]
