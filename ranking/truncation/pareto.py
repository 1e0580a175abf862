"""Generalised Pareto distributions, in the form F(e) = 1 - (1 - theta e)^(-1/xi)."""

from __future__ import annotations

import numpy as np

from ranking.prefixes import Floats

EXPONENTIAL = 1e-6
"""Theta times the mean is at most minus this: as near to an exponential distribution as is computed."""

_COARSE = np.logspace(-6, 3, 91)
_FINE = np.linspace(0, 1, 13)
_ROUNDS = 3


def released_theta(excesses: Floats) -> float:
    """Theta of the likelihood's first maximum from the exponential distribution on towards heavier tails.

    The released code starts an optimiser of three parameters near there and clips what it finds to heavy
    tails. With an excess of 0 the likelihood has no highest value, so the first maximum is the one meant.

    Args:
        excesses: From 0 up, shape (scores,), not all of them 0.
    """
    mean = float(excesses.mean())
    scaled = excesses / mean
    steepness = _COARSE
    loss = _loss(scaled, steepness)
    falls = np.flatnonzero(loss[1:] > loss[:-1])
    if not falls.size or falls[0] == 0:
        return -EXPONENTIAL / mean
    place = int(falls[0])
    low, high = steepness[place - 1], steepness[place + 1]
    for _ in range(_ROUNDS):
        grid = low + (high - low) * _FINE
        best = int(_loss(scaled, grid).argmin())
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    return -float(low + high) / 2 / mean


def _loss(scaled: Floats, steepness: Floats) -> Floats:
    """Minus the mean log-likelihood at -theta, up to a constant, with the shape that fits it best."""
    shape = np.log1p(steepness[:, None] * scaled).mean(axis=1)
    return np.asarray(np.log(shape / steepness) + shape)
