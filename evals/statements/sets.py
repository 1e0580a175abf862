"""The three sets of statements and questions that verification is measured on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cases.records import Case, Sentence
from cases.texts import hash64, hash_order
from evals.published_cases import sample
from evals.statements.corruptions import corruptions
from ranking.readers.scifact import JudgedClaim, read_judged_claims

SetName = Literal["invented", "scifact", "unanswerable"]

RIGHT = "right"
"""Kind of a statement that its record supports, and of a question that its note answers."""

CONTRADICTED, UNRELATED = "contradicted", "unrelated"

SEED = 42


@dataclass(frozen=True, slots=True)
class Item:
    """A statement with its record, or a question with a note.

    Attributes:
        kind: `right`, or what is wrong with it.
        group: Its case or claim; no group is in both halves.
        text: The statement or question.
        cited: The sentences that it rests on; of a question none.
        note: The whole record.
    """

    set: SetName
    kind: str
    group: str
    text: str
    cited: tuple[Sentence, ...]
    note: tuple[Sentence, ...]

    @property
    def is_right(self) -> bool:
        return self.kind == RIGHT


Nearest = Callable[[str, Sequence[str]], Sequence[int]]
"""From a statement and sentences to the positions of those most like it."""


def invented_statements(cases: Iterable[Case]) -> list[Item]:
    """Each sentence of the clinicians' answers, and its corruptions, with the sentences that it cites."""
    items = []
    for case in cases:
        for sentence in case.gold.answer_sentences or ():
            named = set(sentence.citations or ())
            cited = tuple(one for one in case.sentences if one.id in named)
            versions: list[tuple[str, str]] = [(RIGHT, sentence.text), *corruptions(sentence.text).items()]
            items += [Item("invented", kind, case.id, text, cited, case.sentences) for kind, text in versions]
    return items


def scifact_statements(path: Path, claims: int, nearest: Nearest) -> list[Item]:
    """Claims with the sentences that support or contradict them, and with an abstract of another claim.

    Of the other abstract the sentences most like the claim are cited, as many as the claim has evidence, so
    that the length says nothing.

    Args:
        path: The claims, or a folder with one file of claims and one of abstracts.
        claims: How many are drawn.
        nearest: Ranks the sentences of the other abstract.

    Raises:
        InputError: A file cannot be read.
    """
    first: dict[str, JudgedClaim] = {}
    for one in read_judged_claims(path):
        first.setdefault(one.id, one)
    chosen = sample(list(first.values()), claims, SEED, lambda one: one.id)
    items = []
    for one in chosen:
        record = numbered(one.abstract)
        kind = RIGHT if one.verdict == "SUPPORT" else CONTRADICTED
        cited = tuple(record[place] for place in one.rationale)
        items.append(Item("scifact", kind, one.id, one.claim, cited, record))
        others = (other for other in chosen if other.document_id != one.document_id)
        drawn = min(others, key=lambda other: hash64(f"{SEED} {one.id} {other.id}"), default=None)
        if drawn is not None:
            record = numbered(drawn.abstract)
            best = sorted(nearest(one.claim, drawn.abstract)[: len(one.rationale)])
            cited = tuple(record[place] for place in best)
            items.append(Item("scifact", UNRELATED, one.id, one.claim, cited, record))
    return items


def unanswerable_questions(cases: Sequence[Case]) -> list[Item]:
    """The question of each case on its own note, and on the note of each other case."""
    return [
        Item(
            "unanswerable", RIGHT if asked is case else UNRELATED, case.id, asked.question, (), case.sentences
        )
        for case in cases
        for asked in cases
    ]


def numbered(texts: Sequence[str]) -> tuple[Sentence, ...]:
    """Texts as sentences with numbers from 1."""
    return tuple(Sentence(str(number), text) for number, text in enumerate(texts, start=1))


def first_half(items: Iterable[Item]) -> frozenset[str]:
    """Groups of the half that rules and thresholds are chosen on, by a hash of their names."""
    groups = hash_order(dict.fromkeys(one.group for one in items), lambda group: json.dumps([SEED, group]))
    return frozenset(groups[: (len(groups) + 1) // 2])
