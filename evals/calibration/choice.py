"""Choosing a rule, and what the choice is worth on cases that it has not seen.

Nested: for each part that is left out, the kind of rule is chosen by leaving out each further part in turn,
and its parameters on all that remains. Up to 200 cases each case is a part of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cases.texts import hash_order
from evals.calibration.candidates import Source, Table
from ranking.prefixes import Integers
from ranking.tuning import Chosen, Counted

MOST_SINGLE_PARTS = 200
PARTS = 50


class Parts(NamedTuple):
    """Which part each case belongs to; cases with equal texts share one.

    Attributes:
        of_case: From 0, shape (cases,).
        size: How many there are.
    """

    of_case: Integers
    size: int


def parts_of(fingerprints: Sequence[str]) -> Parts:
    """Divide cases, whatever their order."""
    names = _in_order(fingerprints)
    place = {name: number for number, name in enumerate(names)}
    count = len(names) if len(names) <= MOST_SINGLE_PARTS else PARTS
    return Parts(np.array([place[name] % count for name in fingerprints], dtype=np.int64), count)


def held_out(fingerprints: Sequence[str], share: float) -> Integers:
    """Positions of the cases that a share of the texts sets aside, in order."""
    names = _in_order(fingerprints)
    aside = frozenset(names[: max(1, round(share * len(names)))])
    return np.array([row for row, name in enumerate(fingerprints) if name in aside], dtype=np.int64)


def _in_order(fingerprints: Sequence[str]) -> list[str]:
    # Not by the fingerprint itself: it may end in what a user chose ids by.
    return hash_order(set(fingerprints), lambda fingerprint: f"calibrate {fingerprint}")


def choose(table: Table, rows: Integers, parts: Parts, sources: Sequence[Source]) -> Chosen:
    """The rule of the best kind, with the best parameters, on some cases."""
    return _counted(table, parts, rows).best_of(table.of(sources))


def choose_by_others(
    table: Table, parts: Parts, sources: Sequence[Source], tick: Callable[[], None] = lambda: None
) -> Integers:
    """Of each case the column of the rule that all other parts choose, shape (cases,)."""
    counted = _counted(table, parts, np.arange(table.gold.size))
    families = table.of(sources)
    picked = np.zeros(parts.size, dtype=np.int64)
    for part in range(parts.size):
        picked[part] = counted.without(part).best_of(families).column
        tick()
    return np.asarray(picked[parts.of_case])


def _counted(table: Table, parts: Parts, rows: Integers) -> Counted:
    """Sums of some cases by part, of the parts that have any."""

    def total(values: Integers) -> Integers:
        sums = np.zeros((parts.size, *values.shape[1:]), dtype=np.int64)
        np.add.at(sums, parts.of_case[rows], values[rows])
        return sums[there]

    there = np.bincount(parts.of_case[rows], minlength=parts.size) > 0
    return Counted((), total(table.correct), total(table.predicted), total(table.gold))
