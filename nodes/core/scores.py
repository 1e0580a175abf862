"""Scores of rankers, as decisions take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.core.failure import NodeFailure
from ranking.rankers.ranker import Ranker

_DIGITS = 4


def demand_finite(values: NDArray[np.floating[Any]], source: str, kind: str = "score") -> None:
    """Go on only with numbers.

    Raises:
        NodeFailure: A value is NaN or infinity.
    """
    if not np.isfinite(values).all():
        raise NodeFailure("invalid_output", f"{source} returned NaN or infinity as a {kind}")


def by_id(ids: Iterable[str], values: Iterable[float]) -> dict[str, float]:
    """Values by id, rounded: a difference in the last bit between two machines is none between two runs."""
    return {id_: round(float(value), _DIGITS) + 0.0 for id_, value in zip(ids, values, strict=True)}


def ranker_name(ranker: Ranker) -> str:
    """Its identity without the revision, for people."""
    return ranker.identity.partition("@")[0]
