"""The generalised Pareto distribution that fits excesses best, with a shape from -1 up (Grimshaw 1993)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ranking.prefixes import Floats

_STEEPEST = 3
_FINE = np.linspace(0, 1, 13)
_ROUNDS = 3

# Minus theta times the mean: heavy tails, an exponential one, and towards tails that end.
_HEAVY = np.logspace(-6, _STEEPEST, 73)
_ENDING = 1 - np.logspace(-3, -0.001, 40)[::-1]


class Tail(NamedTuple):
    """F(e) = 1 - (1 + shape e / scale)^(-1 / shape)."""

    shape: float
    scale: float

    def minus_log_survival(self, excesses: Floats) -> Floats:
        """-log(1 - F), shape (scores,); infinite beyond the end of a tail that has one."""
        with np.errstate(divide="ignore"):
            logs = np.log1p(np.maximum(self.shape * excesses / self.scale, -1.0))
        return np.asarray(logs / self.shape)

    def misfit(self, excesses: Floats) -> float:
        """W2 of Cramér and von Mises (Choulakian and Stephens 2001), of ascending excesses."""
        size = excesses.size
        reached = -np.expm1(-self.minus_log_survival(excesses))
        missed = reached - (2 * np.arange(1, size + 1) - 1) / (2 * size)
        return float(missed @ missed) + 1 / (12 * size)


def fit_tail(excesses: Floats) -> Tail:
    """Maximum likelihood, the shape given the ratio of shape and scale by its own maximum.

    The likelihood has no highest value for shapes under -1, nor, with an excess near 0, for ever steeper
    distributions: neither is looked at.

    Args:
        excesses: Above 0, ascending, shape (scores,).
    """
    mean = float(excesses.mean())
    scaled = excesses / mean
    ratios = np.concatenate([-_ENDING[::-1] / scaled[-1], _HEAVY])
    shapes = _shapes(scaled, ratios)
    ratios = ratios[shapes >= -1]
    place = int(_loss(scaled, ratios).argmin())
    low, high = ratios[max(place - 1, 0)], ratios[min(place + 1, ratios.size - 1)]
    for _ in range(_ROUNDS):
        grid = low + (high - low) * _FINE
        place = int(_loss(scaled, grid).argmin())
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)]
    ratio = float(grid[place])
    shape = float(np.log1p(ratio * scaled).mean())
    return Tail(shape, mean * shape / ratio)


def _shapes(scaled: Floats, ratios: Floats) -> Floats:
    return np.asarray(np.log1p(ratios[:, None] * scaled).mean(axis=1))


def _loss(scaled: Floats, ratios: Floats) -> Floats:
    """Minus the mean log-likelihood, up to a constant."""
    shapes = _shapes(scaled, ratios)
    return np.asarray(np.log(shapes / ratios) + shapes)
