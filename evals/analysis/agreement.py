"""How far the votes of a case agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import krippendorff
import numpy as np

from evals.analysis.voted_cases import VotedCase


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of votes on whether a sentence is essential.

    Attributes:
        sentences: Sentences with at least two votes.
        alpha: Krippendorff's alpha, nominal: 1 is full agreement, 0 chance. None where all votes are alike,
            since chance explains that as well.
        unanimous: Share of sentences on which all votes agree.
        pairwise: Share of pairs of votes that agree, mean over sentences.
        by_count: Sentences by how many of R votes call them essential, for cases with all R votes.
    """

    sentences: int
    alpha: float | None
    unanimous: float
    pairwise: float
    by_count: dict[int, int]


def vote_agreement(cases: Sequence[VotedCase], votes: int) -> Agreement | None:
    """Agreement over all sentences; None where no case has two votes. No key is needed.

    A ranker is one voter, whatever its vote counts for: it cannot agree with itself.
    """
    rows = [row for case in cases for row in _rows(case) if sum(row) > 1]
    if not rows:
        return None
    counts = np.asarray(rows)
    totals = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (totals * (totals - 1))
    alike = not counts.sum(axis=0).all()
    return Agreement(
        sentences=len(rows),
        alpha=None
        if alike
        else float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")),
        unanimous=float((counts.min(axis=1) == 0).mean()),
        pairwise=float(agreeing.mean()),
        by_count=dict(
            sorted(
                Counter(
                    number for case in cases if case.usable == votes for number in case.counts.values()
                ).items()
            )
        ),
    )


def _rows(case: VotedCase) -> Iterator[tuple[int, int]]:
    """Voters against and for each sentence."""
    repeated = max(0, case.ranker_weight - 1)
    for id_, number in case.counts.items():
        essential = number - (repeated if case.ranked is not None and id_ in case.ranked else 0)
        yield case.usable - repeated - essential, essential
