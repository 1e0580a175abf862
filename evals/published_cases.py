"""Cases out of published data sets that a user has downloaded: claims with abstracts, yes/no questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cases.records import Case, Gold, Sentence
from cases.texts import hash_order, plural
from evals.search.questions import JudgedQuestion, Part, questions_of
from ranking.examples import Example
from ranking.readers.load import load_examples
from ranking.readers.scifact import ScifactOptions
from storage.errors import InputError

_Item = TypeVar("_Item")


def scifact_cases(
    claims: Path,
    *,
    corpus: Path | None = None,
    min_sentences: int = 2,
    part: Part | None = None,
    limit: int | None = None,
    seed: int = 42,
) -> list[Case]:
    """Make a case of each pair of a claim and an abstract with evidence, in the order of the file.

    The claim is the question and the abstract the note; sentences of a rationale are essential, all others
    are not relevant. They have no patient message. Without `corpus` the abstracts are those next to the
    claims, or in the same folder. No two parts share a claim or an abstract; `limit` is a random choice.

    Raises:
        InputError: A file cannot be read, or no pair is left.
    """
    examples = load_examples([claims], ScifactOptions(corpus=corpus))
    kept = [one for one in examples if any(one.labels or ()) and len(one.sentences) >= min_sentences]
    if not kept:
        fault = f"no abstract of {plural(min_sentences, 'sentence')} or more has evidence"
        raise InputError(claims, fault, "Give a smaller --min-sentences")
    if part is not None:
        kept = _part_of(kept, part)
    return [_case(one) for one in sample(kept, limit, seed, lambda one: one.id)]


def sample(
    items: Sequence[_Item], limit: int | None, seed: int, id_of: Callable[[_Item], str]
) -> list[_Item]:
    """A choice that depends on seed and ids alone, in the order of the items."""
    drawn = hash_order(items, lambda one: json.dumps([seed, id_of(one)]))
    chosen = {id_of(one) for one in drawn[:limit]}
    return [one for one in items if id_of(one) in chosen]


def _part_of(examples: Sequence[Example], part: Part) -> list[Example]:
    questions = [
        JudgedQuestion(one.id, one.query, (f"claim {one.group}", f"abstract {one.document_id}"))
        for one in examples
    ]
    within = {question.id for question in questions_of(questions, part)}
    return [one for one in examples if one.id in within]


def _case(example: Example) -> Case:
    """Sentences keep their numbers where one before them is blank and therefore left out."""
    texts = {str(number): text for number, text in enumerate(example.sentences, start=1) if text.strip()}
    labels = dict(zip(map(str, range(1, len(example.sentences) + 1)), example.labels or (), strict=True))
    return Case(
        id=example.id.replace("/", "-"),
        narrative="",
        question=example.query,
        sentences=tuple(Sentence(id_, text) for id_, text in texts.items()),
        gold=Gold(labels={id_: "essential" if labels[id_] else "not-relevant" for id_ in texts}),
    )
