"""Figures of rankers from stored scores, each computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evals.statistics.case_totals import Floats
from evals.studies.data import TUNING
from evals.studies.layouts import Rule, Tuned
from evals.studies.measures import LabelledCase, case_numbers
from ranking.cutoffs import Cutoff
from ranking.ranker import Scores
from ranking.tuning import ScoredCase, best_cutoff, tune

SetScores = Mapping[str, Mapping[str, Scores]]
"""Logits by the name of the set and the id of the case."""

Scored = Mapping[str, Mapping[int, SetScores]]
"""By row and seed, what is finished. A baseline without chance has the one seed 0."""

Cases = Mapping[str, Mapping[str, LabelledCase]]
"""By set and id."""


class Figures:
    """Cut-offs and case numbers of every row and seed."""

    def __init__(self, cases: Cases, scored: Scored) -> None:
        self._cases = cases
        self._scored = scored
        self._tuned: dict[tuple[str, int, Tuned], Cutoff] = {}
        self._numbers: dict[tuple[str, int, str, Cutoff], Floats] = {}

    def seeds(self, row: str, sets: Sequence[str]) -> tuple[int, ...]:
        """Seeds of a row that are scored on the tuning part and on all of the sets."""
        of_row = self._scored.get(row, {})
        needed = {TUNING, *sets}
        return tuple(seed for seed in sorted(of_row) if needed <= of_row[seed].keys())

    def groups(self, sets: Sequence[str]) -> list[str]:
        """Of each case, in the order of `matrix`."""
        return [case.group for name in sets for case in self._cases[name].values()]

    def matrix(self, row: str, seed: int, sets: Sequence[str], rule: Rule) -> Floats:
        """Numbers of every case of the sets, shape (cases, columns of `case_numbers`)."""
        cutoff = self.cutoff(row, seed, rule)
        return np.concatenate([self._of_set(row, seed, name, cutoff) for name in sets])

    def cutoff(self, row: str, seed: int, rule: Rule) -> Cutoff:
        """The rule, with parameters from the tuning part where it is to be tuned."""
        if not isinstance(rule, Tuned):
            return rule
        key = (row, seed, rule)
        if key not in self._tuned:
            labelled = self._cases[TUNING]
            cases = [
                ScoredCase(scores, labelled[case_id].labels)
                for case_id, scores in self._scored[row][seed][TUNING].items()
            ]
            if rule.kind == "best":
                self._tuned[key] = best_cutoff(cases, fallback=rule.fallback).cutoff
            else:
                self._tuned[key] = tune(rule.kind, cases, fallback=rule.fallback).cutoff
        return self._tuned[key]

    def _of_set(self, row: str, seed: int, name: str, cutoff: Cutoff) -> Floats:
        key = (row, seed, name, cutoff)
        if key not in self._numbers:
            scores = self._scored[row][seed][name]
            self._numbers[key] = np.stack(
                [case_numbers(case, scores[case_id], cutoff) for case_id, case in self._cases[name].items()]
            )
        return self._numbers[key]
