"""Evidence scores of ArchEHR-QA 2026, subtask 2, with the official scorer's definitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Scores(NamedTuple):
    """Each between 0 and 1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class CaseEvidence:
    """Sentence ids of one case: predicted, and by the key essential and supplementary."""

    predicted: frozenset[str]
    essential: frozenset[str]
    supplementary: frozenset[str] = frozenset()

    def lenient(self) -> CaseEvidence:
        """As the 2026 scorer has it: supplementary sentences are taken out of the prediction."""
        return CaseEvidence(self.predicted - self.supplementary, self.essential, self.supplementary)


def micro(cases: Sequence[CaseEvidence]) -> Scores:
    """Pooled over cases. Nothing predicted and nothing essential is perfect; one of them alone is 0."""
    correct = sum(len(case.predicted & case.essential) for case in cases)
    predicted = sum(len(case.predicted) for case in cases)
    essential = sum(len(case.essential) for case in cases)
    return _scores(correct, predicted, essential)


def macro(cases: Sequence[CaseEvidence]) -> Scores:
    """Means over cases; macro F1 is the mean of F1s. No cases give nan."""
    each = [
        _scores(len(case.predicted & case.essential), len(case.predicted), len(case.essential))
        for case in cases
    ]
    count = len(each) or float("nan")
    return (
        Scores(*(sum(values) / count for values in zip(*each, strict=True))) if each else Scores(*[count] * 3)
    )


def case_evidence(predicted: Collection[str], labels: dict[str, str]) -> CaseEvidence:
    """From a key's labels by sentence id."""

    def having(label: str) -> frozenset[str]:
        return frozenset(id_ for id_, its in labels.items() if its == label)

    return CaseEvidence(frozenset(predicted), having("essential"), having("supplementary"))


def _scores(correct: int, predicted: int, essential: int) -> Scores:
    if predicted == essential == 0:
        return Scores(1.0, 1.0, 1.0)
    precision = correct / predicted if predicted else 0.0
    recall = correct / essential if essential else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Scores(precision, recall, f1)
