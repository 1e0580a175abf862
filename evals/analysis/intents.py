"""Intents: how well they are classified, and how evidence fares by intent (TAMU 2026, section 4.2.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.analysis.sweep import EvidenceScores, evidence_scores
from evals.analysis.voted_cases import VotedCase
from evals.scoring.gold import GoldCase
from ranking.measures import Counts, macro

NONE = "(none)"
"""A prediction that names no known intent: wrong for every gold intent, and not a separate class."""


@dataclass(frozen=True, slots=True)
class IntentScores:
    """Primary intents against those of the key.

    Attributes:
        cases: Cases with a gold intent whose case is done.
        accuracy: Share of equal primary intents.
        accuracy_with_secondary: Share where the gold primary is the predicted primary or secondary.
        macro_f1: Mean F1 of the intents that occur in the key or in a prediction.
        confusion: Number of cases by gold and predicted intent.
    """

    cases: int
    accuracy: float
    accuracy_with_secondary: float
    macro_f1: float
    confusion: Mapping[tuple[str, str], int]


def intent_scores(
    predicted: Mapping[str, tuple[str | None, str | None]], gold: Mapping[str, GoldCase]
) -> IntentScores | None:
    """Score intents; None where the key has none."""
    rows = [
        (its.intent.primary, *predicted[case_id])
        for case_id, its in gold.items()
        if its.intent is not None and case_id in predicted
    ]
    if not rows:
        return None
    confusion = Counter((wanted, made or NONE) for wanted, made, _ in rows)
    wanted_of, made_of = (Counter(row[place] or NONE for row in rows) for place in (0, 1))
    classes = sorted({*wanted_of, *made_of} - {NONE})
    counts = [Counts(confusion[name, name], made_of[name], wanted_of[name]) for name in classes]
    return IntentScores(
        cases=len(rows),
        accuracy=sum(wanted == made for wanted, made, _ in rows) / len(rows),
        accuracy_with_secondary=sum(wanted in (made, second) for wanted, made, second in rows) / len(rows),
        macro_f1=macro(counts, "zero").f1,
        confusion=dict(confusion),
    )


def evidence_by_intent(cases: Sequence[VotedCase]) -> list[EvidenceScores]:
    """Evidence of the recipe's threshold by intent: the key's where it has one, else the predicted."""
    groups: dict[str, list[VotedCase]] = {}
    for case in cases:
        gold = case.gold.intent
        groups.setdefault(gold.primary if gold else case.intent or NONE, []).append(case)
    return [
        evidence_scores(name, group, [case.evidence["threshold"] for case in group])
        for name, group in sorted(groups.items())
    ]
