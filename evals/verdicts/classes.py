"""Macro precision, recall and F1 over the answers, from sums over cases (Vladika and Matthes 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cases.records import Verdict
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Part

Classes = Literal[2, 3]

NAMES: Mapping[Classes, tuple[Verdict, ...]] = {3: ("yes", "no", "unknown"), 2: ("yes", "no")}
"""The answers that there are."""

_COUNTS = 3


@dataclass(frozen=True, slots=True)
class MacroOfClasses:
    """Unweighted mean of a score of each answer, 0 to 100.

    The macro F1 is the mean of the F1s, not the F1 of the means. An answer that nobody gave has precision 0,
    one that is nowhere right recall 0.
    """

    classes: Classes
    part: Part

    @property
    def columns(self) -> tuple[int, ...]:
        """Of each answer: right, given, wanted."""
        return tuple(range(_COUNTS * self.classes))

    def of(self, totals: Floats, cases: float) -> Floats:
        """The mean over the answers."""
        scores = [_score(self.part, *_counts(totals, place)) for place in range(self.classes)]
        return np.asarray(PERCENT * np.mean(scores, axis=0))


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Right answers among all, 0 to 100."""

    classes: Classes

    @property
    def columns(self) -> tuple[int, ...]:
        """Of each answer those that are right."""
        return tuple(range(0, _COUNTS * self.classes, _COUNTS))

    def of(self, totals: Floats, cases: float) -> Floats:
        """The share."""
        return np.asarray(PERCENT * totals[..., list(self.columns)].sum(axis=-1) / cases)


def statistics(classes: Classes) -> dict[str, CaseStatistic]:
    """Every score of an answer by its name."""
    return {
        "macro_precision": MacroOfClasses(classes, "precision"),
        "macro_recall": MacroOfClasses(classes, "recall"),
        "macro_f1": MacroOfClasses(classes, "f1"),
        "accuracy": Accuracy(classes),
    }


def case_matrix(gold: Sequence[Verdict], predicted: Sequence[Verdict], classes: Classes) -> Floats:
    """A row a case: for each answer whether it is right, given and wanted, shape (cases, 3 * classes)."""
    rows = [
        [
            float(value)
            for name in NAMES[classes]
            for value in (wanted == given == name, given == name, wanted == name)
        ]
        for wanted, given in zip(gold, predicted, strict=True)
    ]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), _COUNTS * classes)


def _counts(totals: Floats, place: int) -> tuple[Floats, Floats, Floats]:
    first = _COUNTS * place
    return totals[..., first], totals[..., first + 1], totals[..., first + 2]


def _score(part: Part, right: Floats, given: Floats, wanted: Floats) -> Floats:
    top, bottom = {
        "precision": (right, given),
        "recall": (right, wanted),
        "f1": (2 * right, given + wanted),
    }[part]
    score: Floats = np.divide(top, bottom, out=np.zeros_like(top, dtype=np.float64), where=bottom > 0)
    return score
