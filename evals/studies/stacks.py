"""A row made of two others: their scores, put together by a regression over those of the tuning part."""

from __future__ import annotations

from collections.abc import Mapping

from evals.studies.data import TUNING
from evals.studies.figures import SetScores
from evals.studies.stored import LabelledCase
from ranking.training.stack import fit_stack


def stacked_scores(
    tuning: Mapping[str, LabelledCase], model: Mapping[int, SetScores], other: Mapping[int, SetScores]
) -> dict[int, SetScores]:
    """Scores by seed and set.

    Args:
        tuning: Labels, by the id of the case.
        model: Scores of the first row by seed.
        other: Of the second row; what has the one seed 0 is the same at each seed of the first.

    Raises:
        RankerError: All sentences of the tuning part are evidence, or none is.
    """
    found = {}
    for seed, first in model.items():
        second = other.get(seed, other.get(0, {}))
        if TUNING in first and TUNING in second:
            found[seed] = _stacked(tuning, first, second)
    return found


def _stacked(tuning: Mapping[str, LabelledCase], first: SetScores, second: SetScores) -> SetScores:
    ids = [case_id for case_id in first[TUNING] if case_id in second[TUNING]]
    stack = fit_stack(
        [first[TUNING][case_id] for case_id in ids],
        [second[TUNING][case_id] for case_id in ids],
        [tuning[case_id].labels for case_id in ids],
    )
    return {
        name: {
            case_id: stack.combine(scores, second[name][case_id])
            for case_id, scores in first[name].items()
            if case_id in second[name]
        }
        for name in first
        if name in second
    }
