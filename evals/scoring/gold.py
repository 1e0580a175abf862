"""What a key says of the cases of a task, with the texts that its metrics read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.archehr_key import read_archehr_key
from cases.load import find_cases, sort_keys
from cases.records import Case, Gold, Intent, Label

Labels = Mapping[str, Label]
"""The key's label of each sentence of a case."""

_RANGE = re.compile(r"(\d+)-(\d+)")
_MAX_RANGE = 1_000_000


class ScoringError(Exception):
    """Predictions that cannot be scored, in one line with the remedy."""


@dataclass(frozen=True, slots=True)
class GoldCase:
    """What the key says of one case. A part that it leaves out is None: unlabelled, never empty.

    Attributes:
        labels: Relevance by sentence id, of every sentence of the note.
        links: Pairs of an answer sentence's id and the id of a note sentence that supports it.
        answer_ids: Ids of the answer's sentences, None where it has none.
        answer: The clinician's answer, without citations.
        narrative: The patient's message; None without the case file, as are the next two.
        question: The clinician's question.
        essential_texts: Texts of the essential sentences, in note order.
        weak: Whether the labels are no gold, but made from the clinician's answer.
    """

    case_id: str
    labels: Labels | None = None
    links: frozenset[tuple[str, str]] | None = None
    answer_ids: tuple[str, ...] | None = None
    answer: str | None = None
    intent: Intent | None = None
    narrative: str | None = None
    question: str | None = None
    essential_texts: tuple[str, ...] | None = None
    weak: bool = False

    @property
    def essential(self) -> frozenset[str]:
        """Ids of the sentences that are needed."""
        return self._having("essential")

    @property
    def supplementary(self) -> frozenset[str]:
        """Ids of the sentences that help and are not needed."""
        return self._having("supplementary")

    def _having(self, label: Label) -> frozenset[str]:
        return frozenset(id_ for id_, its in (self.labels or {}).items() if its == label)


def gold_of_case(case: Case) -> GoldCase:
    """From a case that was read with its key."""
    gold = _gold(case.id, case.gold)
    essential = gold.essential
    texts = tuple(sentence.text for sentence in case.sentences if sentence.id in essential)
    return GoldCase(
        case.id,
        gold.labels,
        gold.links,
        gold.answer_ids,
        gold.answer,
        gold.intent,
        case.narrative,
        case.question,
        texts,
        gold.weak,
    )


def read_gold(keys: Sequence[Path], case_files: Sequence[Path]) -> dict[str, GoldCase]:
    """Read keys, and the texts of their cases where case files are given.

    Without a key the case files alone are read: subtask 1 needs no more than their questions.

    Raises:
        InputError: A file cannot be read, or the key belongs to other cases.
    """
    keys, case_files = sort_keys(keys, case_files)
    found = {case_id: _gold(case_id, gold) for key in keys for case_id, gold in read_archehr_key(key).items()}
    if not case_files:
        return found
    source = find_cases(case_files, keys)
    source.check()
    from_files = {case.id: gold_of_case(case) for case in source if isinstance(case, Case)}
    return {case_id: from_files.get(case_id, gold) for case_id, gold in found.items()} or from_files


def only_cases(gold: Mapping[str, GoldCase], case_ids: Iterable[str]) -> dict[str, GoldCase]:
    """The cases that are asked for."""
    wanted = set(case_ids)
    return {case_id: case for case_id, case in gold.items() if case_id in wanted}


def parse_case_ids(text: str) -> frozenset[str]:
    """Read ids as the official scorers take them, `121-167 5`, separated by commas or blanks.

    `a-b` of whole numbers is a range with both ends in it.

    Raises:
        ScoringError: It names no case, or a range is not one.
    """
    ids: set[str] = set()
    for part in text.replace(",", " ").split():
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            ids.add(part)
            continue
        first, last = int(bounds[1]), int(bounds[2])
        if not 0 <= last - first < _MAX_RANGE:
            raise ScoringError(f"--case-ids: {part!r} is not a range; write the smaller id first")
        ids |= {str(number) for number in range(first, last + 1)}
    if not ids:
        raise ScoringError("--case-ids names no case; write ids and ranges such as 1-20,35")
    return frozenset(ids)


def _gold(case_id: str, gold: Gold) -> GoldCase:
    sentences = gold.answer_sentences
    links = None
    if sentences is not None and all(sentence.citations is not None for sentence in sentences):
        links = frozenset(
            (sentence.id, cited) for sentence in sentences for cited in sentence.citations or ()
        )
    return GoldCase(
        case_id,
        labels=gold.labels,
        links=links,
        answer_ids=None if sentences is None else tuple(sentence.id for sentence in sentences),
        answer=gold.answer,
        intent=gold.intent,
        weak=gold.labels is not None and gold.label_source == "weak",
    )
