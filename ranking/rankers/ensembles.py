"""Two rankings of the same question made one: nomination and weighted scores (Verma et al. 2025, 3.2.4).

The paper does not say how a place becomes a score; the maps here are ours, and named in every result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cases.texts import plural
from ranking.measures import DEPTH, average_precision

RRF_K = 60
"""Constant of the paper; a larger one gives more weight to low positions."""


class Fused(NamedTuple):
    """A document with the sum of 1 / (k + rank) over the rankings that hold it."""

    id: str
    score: float


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], k: int = RRF_K) -> list[Fused]:
    """Fuse rankings by the places of their documents alone; scores of different retrievers never meet.

    Args:
        rankings: Ids, best first. If an id is repeated in one, its first position counts.
        k: At least 0.

    Returns:
        Every id once, best first. Of equal scores the one that comes first stays first, reading the rankings
        one after the other.
    """
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(dict.fromkeys(ranking), start=1):
            shares.setdefault(id_, []).append(1 / (k + rank))
    # Exact sums: with plain ones a tie would depend on the order of its terms.
    fused = [Fused(id_, math.fsum(parts)) for id_, parts in shares.items()]
    return sorted(fused, key=lambda one: -one.score)


RankToScore = Literal["linear", "reciprocal", "rrf", "minmax"]
Weights = tuple[float, float]

NOMINATED = 6
"""Documents of the first ranking that nomination takes before it looks at the second."""

_STEPS = range(2, 9)
GRID: tuple[Weights, ...] = (
    (1.0, 0.0),
    *((float(step), 1.0) for step in reversed(_STEPS)),
    (1.0, 1.0),
    *((1.0, float(step)) for step in _STEPS),
    (0.0, 1.0),
)
"""Ratios of the second weight to the first from 0 by 1/8, 1/7 ... 8 to infinity: only the ratio matters.

With both ends among them, the best is never worse than either ranking alone on the questions it was chosen
on.
"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Documents of one question.

    Attributes:
        ids: Best first, none twice.
        scores: One for each, as `minmax` needs them; None where only places are known.
    """

    ids: tuple[str, ...]
    scores: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Hold scores against ids.

        Raises:
            ValueError: An id is repeated, or scores differ in number or are not finite.
        """
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("duplicate document in a ranking")
        if self.scores is None:
            return
        if len(self.scores) != len(self.ids) or not np.isfinite(self.scores).all():
            raise ValueError(f"{plural(len(self.ids), 'document')} without as many finite scores")


def nominate(first: Sequence[str], second: Sequence[str], kept: int, nominated: int = NOMINATED) -> list[str]:
    """The best `nominated` of the first ranking, then the second until all are `kept`, then the rest."""
    head = first[: min(nominated, kept)]
    return list(dict.fromkeys([*head, *second, *first]))[:kept]


def weighted_scores(
    first: Ranking, second: Ranking, weights: Weights, first_map: RankToScore, second_map: RankToScore
) -> dict[str, float]:
    """Sum of both scores by id, best first; a document that a ranking lacks has 0 from it.

    Ties go by the place in the first ranking, then by that in the second.

    Raises:
        ValueError: `minmax` of a ranking that has no scores.
    """
    of_first, of_second = rank_scores(first, first_map), rank_scores(second, second_map)
    ids = list(dict.fromkeys([*first.ids, *second.ids]))
    total = {id_: weights[0] * of_first.get(id_, 0.0) + weights[1] * of_second.get(id_, 0.0) for id_ in ids}
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def rank_scores(ranking: Ranking, how: RankToScore) -> Mapping[str, float]:
    """Value of a position, by id: `linear` (N - r + 1) / N, `reciprocal` 1 / r, `rrf` 1 / (60 + r).

    `minmax` takes the scores instead: 0 for the lowest, 1 for the highest, 1 for all where they are equal.

    Raises:
        ValueError: `minmax` of a ranking that has no scores.
    """
    return dict(zip(ranking.ids, _values(ranking, how).tolist(), strict=True))


def _values(ranking: Ranking, how: RankToScore) -> NDArray[np.float64]:
    size = len(ranking.ids)
    ranks = np.arange(1, size + 1, dtype=np.float64)
    match how:
        case "linear":
            return (size - ranks + 1) / size
        case "reciprocal":
            return 1 / ranks
        case "rrf":
            return 1 / (RRF_K + ranks)
        case "minmax":
            if ranking.scores is None:
                raise ValueError("minmax needs scores, and this ranking has places alone; use linear")
            return _min_max(np.asarray(ranking.scores, dtype=np.float64))


def _min_max(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    if not scores.size:
        return scores
    least, most = float(scores.min()), float(scores.max())
    return np.asarray((scores - least) / (most - least)) if most > least else np.ones_like(scores)


@dataclass(frozen=True, slots=True)
class JudgedRankings:
    """Two rankings of one question, and the ids that are relevant to it."""

    first: Ranking
    second: Ranking
    relevant: frozenset[str]


class Tuned(NamedTuple):
    """Weights that were chosen, and on what.

    Attributes:
        split: Name of the questions that they were chosen on; figures of other questions are the test.
        values: Mean average precision by weights, in the order of `GRID`.
    """

    weights: Weights
    value: float
    split: str
    questions: int
    values: Mapping[Weights, float]


def tune_weights(
    questions: Sequence[JudgedRankings],
    first_map: RankToScore,
    second_map: RankToScore,
    *,
    split: str,
    depth: int = DEPTH,
) -> Tuned:
    """Choose weights by mean average precision on a split; of equals the smaller ratio of second to first.

    Raises:
        ValueError: No question.
    """
    if not questions:
        raise ValueError(f"weights cannot be chosen on split {split!r}: it has no question")
    values = {
        weights: ensemble_value(questions, weights, first_map, second_map, depth=depth) for weights in GRID
    }
    best = max(GRID, key=lambda weights: values[weights])
    return Tuned(best, values[best], split, len(questions), values)


def ensemble_value(
    questions: Sequence[JudgedRankings],
    weights: Weights,
    first_map: RankToScore,
    second_map: RankToScore,
    *,
    depth: int = DEPTH,
) -> float:
    """Mean average precision of the weighted ensemble."""
    return float(
        np.mean(
            [
                average_precision(
                    list(weighted_scores(one.first, one.second, weights, first_map, second_map)),
                    one.relevant,
                    depth,
                )
                for one in questions
            ]
        )
    )
