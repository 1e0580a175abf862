"""Evidence against essential sentences (2026 subtask 2; factuality of 2025), strict and lenient.

Two meanings of lenient are in use. The official scorer of 2026 takes supplementary sentences out of the
prediction: they neither help nor harm. That of 2025, and the development tables of TAMU 2026, add them to the
gold set: they help, and to miss them harms. Here the first is `lenient` in 2026, the second `lenient` in 2025
and `lenient_union` beside 2026.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.scoring.counts import Counts, EmptyRule, count, macro, micro
from evals.scoring.matching import Matched

_PARTS = ("precision", "recall", "f1")


def evidence_counts(predicted: frozenset[str], matched: Matched) -> dict[str, Counts]:
    """Counts of one case: `strict`, `lenient` (2026) and `lenient_union` (2025)."""
    essential, supplementary = matched.gold.essential, matched.gold.supplementary
    return {
        "strict": count(predicted, essential),
        "lenient": count(predicted - supplementary, essential),
        "lenient_union": count(predicted, essential | supplementary),
    }


def leaderboard(
    variants: Mapping[str, Sequence[Counts]], empty: EmptyRule, averages: Sequence[str] = ("macro", "micro")
) -> dict[str, float]:
    """`{variant}_{macro|micro}_{precision|recall|f1}`, times 100.

    Args:
        variants: Counts of the cases, by the name that the leaderboard gives to the variant; an empty name
            leaves the values without one.
        empty: The task's rule for nothing where nothing is wanted.
        averages: In the order wanted.
    """
    values: dict[str, float] = {}
    for variant, counts in variants.items():
        for average in averages:
            of_average = macro(counts, empty) if average == "macro" else micro(counts, empty)
            prefix = f"{variant}_{average}" if variant else average
            values |= {
                f"{prefix}_{part}": 100 * value for part, value in zip(_PARTS, of_average, strict=True)
            }
    return values
