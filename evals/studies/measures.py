"""What selections are worth: one row of numbers a case, and scores that need no more than their sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np

from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Mean, Pooled, Ratio
from evals.studies.stored import LabelledCase
from ranking.cutoffs import Cutoff, select
from ranking.measures import average_precision_of_scores, count_characters, count_sentences
from ranking.measures import scores as part_scores
from ranking.ranker import Scores

Measure = Literal[
    "macro_p", "macro_r", "macro_f1", "micro_p", "micro_r", "micro_f1", "char_p", "char_r", "char_f1", "ap"
]
"""Macro: mean over cases. Micro: all sentences of all cases together (Abridge's corpus score). Char: the same
in characters. AP: mean average precision of the order, which no cut-off touches."""

_SENTENCES, _CASE, _CHARACTERS, _PRECISION = 0, 3, 6, 9


STATISTICS: Mapping[Measure, CaseStatistic] = {
    "macro_p": Mean(_CASE),
    "macro_r": Mean(_CASE + 1),
    "macro_f1": Mean(_CASE + 2),
    "micro_p": Pooled(_SENTENCES, "precision", "zero", PERCENT),
    "micro_r": Pooled(_SENTENCES, "recall", "zero", PERCENT),
    "micro_f1": Pooled(_SENTENCES, "f1", "zero", PERCENT),
    "char_p": Pooled(_CHARACTERS, "precision", "zero", PERCENT),
    "char_r": Pooled(_CHARACTERS, "recall", "zero", PERCENT),
    "char_f1": Pooled(_CHARACTERS, "f1", "zero", PERCENT),
    "ap": Ratio(_PRECISION, _PRECISION + 1),
}
assert set(STATISTICS) == set(get_args(Measure))


def case_numbers(case: LabelledCase, scores: Scores, cutoff: Cutoff) -> Floats:
    """A case's row, shape (11,).

    Counts of sentences (correct, predicted, gold), precision, recall and F1 in the case, counts of
    characters, average precision and whether there is one.
    """
    chosen = select(cutoff, scores)
    sentences = count_sentences(chosen, case.labels)
    precision = average_precision_of_scores(scores, case.labels)
    in_case = part_scores(sentences, "zero")
    return np.asarray(
        [
            *sentences,
            *(PERCENT * value for value in in_case),
            *count_characters(chosen, case.labels, case.lengths),
            PERCENT * (precision or 0.0),
            precision is not None,
        ],
        dtype=np.float64,
    )


def by_group(rows: Floats, groups: list[str]) -> Floats:
    """Sums over the cases of a group, shape (groups, columns), groups in order of their first case."""
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    summed = np.zeros((len(places), rows.shape[1]))
    np.add.at(summed, [places[group] for group in groups], rows)
    return summed
