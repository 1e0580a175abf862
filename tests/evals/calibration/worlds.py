"""Invented cases whose scores tell something of their labels, some clearly, some hardly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evals.calibration.labelled_cases import CalibrationData, LabelledCase
from graph.recipe import load_recipe


def world(
    seed: int, count: int, *, voted: bool = False, ranked: bool = True, size: int = 8
) -> list[LabelledCase]:
    """Cases of about `size` sentences; the model's log-odds and the ranker's scores err apart."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        essential = random.random(int(random.integers(2, 2 * size))) < 0.3
        clear = random.exponential(2.0)
        signal = (2.0 * essential - 1) * clear
        ranker = np.round(signal + random.standard_normal(essential.size), 4)
        model = np.round(signal + 2 * random.standard_normal(essential.size), 4)
        found.append(
            LabelledCase(
                case_id=f"c{number}",
                fingerprint=f"{seed}-{number}",
                essential=essential,
                model=model if voted else None,
                ranker=ranker if ranked else None,
                uncalibrated=(ranker if ranked else model) > 2,
                uncalibrated_sums=ranker if ranked else model,
            )
        )
    return found


def data(cases: Sequence[LabelledCase], ranker: str | None = "logistic") -> CalibrationData:
    return CalibrationData("invented", cases, load_recipe("tamu-ranker"), None, {}, ranker, {})
