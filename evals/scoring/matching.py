"""Predictions beside their gold, with the checks of the official scorers on ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cases.submissions.prediction import Prediction, Task
from evals.scoring.gold import GoldCase

NEEDED: Mapping[Task, str] = {
    "2025": "labels",
    "2026-1": "a clinician question",
    "2026-2": "labels",
    "2026-3": "a clinician answer",
    "2026-4": "citations of the clinician answer's sentences",
}
"""What a key must give of a case for a task."""

_HAS_GOLD: Mapping[Task, Callable[[GoldCase], bool]] = {
    "2025": lambda gold: gold.labels is not None,
    "2026-1": lambda gold: bool(gold.question),
    "2026-2": lambda gold: gold.labels is not None,
    "2026-3": lambda gold: gold.answer is not None,
    "2026-4": lambda gold: gold.links is not None,
}

_IS_MADE: Mapping[Task, Callable[[Prediction], bool]] = {
    "2025": lambda made: made.answer is not None and made.evidence is not None,
    "2026-1": lambda made: made.question is not None,
    "2026-2": lambda made: made.evidence is not None,
    "2026-3": lambda made: made.answer is not None,
    "2026-4": lambda made: made.links is not None,
}


class Matched(NamedTuple):
    """One prediction and the gold of its case."""

    made: Prediction
    gold: GoldCase


class ScoringError(Exception):
    """Predictions that cannot be scored, in one line with the remedy."""


def gold_for(task: Task, gold: Mapping[str, GoldCase]) -> dict[str, GoldCase]:
    """The cases that can be scored for a task; a case without labels is unlabelled, not empty."""
    return {case_id: case for case_id, case in gold.items() if _HAS_GOLD[task](case)}


def made_for(task: Task, predictions: Iterable[Prediction]) -> list[Prediction]:
    """The predictions that say something for a task."""
    return [made for made in predictions if _IS_MADE[task](made)]


def match(predictions: Sequence[Prediction], gold: Mapping[str, GoldCase]) -> list[Matched]:
    """Pair in the order of the predictions; those of other cases are left out, repeated ones kept."""
    return [Matched(made, gold[made.case_id]) for made in predictions if made.case_id in gold]


def unknown_ids(task: Task, matched: Iterable[Matched]) -> Iterator[str]:
    """What an official scorer refuses: ids that the key does not have, in words, a line a case."""
    for made, gold in matched:
        if task == "2026-2":
            yield from _unknown(made.case_id, "sentence", made.evidence or (), gold.labels or {})
        elif task == "2026-4":
            answer_ids, note_ids = (
                {answer for answer, _ in made.links or ()},
                {id_ for _, id_ in made.links or ()},
            )
            yield from _unknown(made.case_id, "answer sentence", answer_ids, gold.answer_ids or ())
            if gold.labels:
                yield from _unknown(made.case_id, "sentence", note_ids, gold.labels)


def _unknown(case_id: str, kind: str, ids: Collection[str], known: Collection[str]) -> Iterator[str]:
    unknown = sorted(set(ids) - set(known))
    if unknown:
        more = f" and {len(unknown) - 1} more" if unknown[1:] else ""
        yield f"case {case_id!r}: the key has no {kind} {unknown[0]!r}{more}"
