"""How many of a ranking to keep. Every rule keeps a prefix of it; these are their lengths.

`ranked` is a case's logits in descending order, shape (sentences,), float64, at least one. Parameters are
arrays, so that a whole grid is tried at once; the lengths have their shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_EPSILON = 1e-12


def checked_scores(scores: Sequence[float] | NDArray[np.floating[Any]]) -> Floats:
    """The scores of a case as float64, shape (sentences,).

    Raises:
        ValueError: A score is not a finite number, or scores are not a list.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"scores have shape {values.shape}, not one number for each sentence")
    if not np.isfinite(values).all():
        first = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"the score of sentence {first} is {values[first]}: scores have to be finite")
    return values


def ranking_order(scores: Floats) -> Integers:
    """Positions from the highest score to the lowest, equal scores in document order."""
    return np.argsort(-scores, kind="stable").astype(np.int64)


def probabilities(scores: Floats) -> Floats:
    """Sigmoid, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * scores)))


def threshold_prefix(ranked: Floats, tau: Floats, fallback: bool) -> Integers:
    """All with a probability of at least `tau`; with `fallback` never fewer than one."""
    kept = (probabilities(ranked) >= tau[..., None]).sum(axis=-1)
    return np.asarray(np.maximum(kept, int(fallback)), dtype=np.int64)


def gap_prefix(ranked: Floats, max_k: int | None) -> int:
    """Up to the widest gap between neighbours, the first of equal ones, of the gaps within `max_k`.

    Gaps after `max_k` are not looked at, so one far-off last sentence does not turn the rule into a top-k.
    """
    gaps = (ranked[:-1] - ranked[1:])[:max_k]
    if not gaps.size:
        return 1
    return 1 + int(np.argmax(gaps >= gaps.max() - _EPSILON))


def adaptive_prefix(ranked: Floats, tau0: Floats, entropy_weight: Floats) -> Integers:
    """Smallest prefix whose softmax mass reaches `tau0 + entropy_weight * H`, at most 1.

    H is the entropy of the softmax divided by a uniform distribution's; 0 for a single sentence.
    """
    size = ranked.size
    shares = np.exp(ranked - ranked[0])
    shares /= shares.sum()
    present = shares[shares > 0]
    entropy = -(present * np.log(present)).sum() / np.log(size) if size > 1 else 0.0
    tau = np.minimum(1.0, tau0 + entropy_weight * entropy)
    kept = np.searchsorted(np.cumsum(shares), tau - _EPSILON) + 1
    return np.clip(kept, 1, size).astype(np.int64)


def top_prefix(ranked: Floats, k: int) -> int:
    """The best `k`, or all."""
    return min(k, ranked.size)


def share_prefix(sizes: Integers | int, share: Floats) -> Integers:
    """The nearest whole number to a share of the sentences, halves up; at least one. Both are broadcast."""
    return np.maximum(1, np.floor(np.asarray(sizes) * share + 0.5 + _EPSILON)).astype(np.int64)


def deviations_prefix(ranked: Floats, above: Floats) -> Integers:
    """All at least `above` standard deviations over the mean; at least one."""
    kept = (standardised(ranked) >= above[..., None] - _EPSILON).sum(axis=-1)
    return np.asarray(np.maximum(kept, 1), dtype=np.int64)


def standardised(scores: Floats) -> Floats:
    """Scores of a document less their mean, over their standard deviation; zeros where all are equal."""
    spread = float(scores.std()) if scores.size else 0.0
    return (scores - scores.mean()) / spread if spread > _EPSILON else np.zeros_like(scores)
