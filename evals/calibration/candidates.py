"""Counts of every candidate rule in every case, and the performance of a choice among them on unseen cases.

Few and readable: three sources (votes, ranker, both by three weights) and four kinds of cut-off. Since micro
F1 is computed from sums over cases, leaving cases out is a subtraction. The choice is nested: for each part
that is left out, the kind of rule is chosen by leaving out each further part in turn, and its parameters on
all that remains. With up to 200 cases, each case is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cases.texts import hash_order
from evals.calibration.labelled_cases import LabelledCase
from nodes.evidence.rule import EvidenceRule, add_up
from ranking.cutoffs import Cutoff, Deviations, FixedThreshold, Share, TopK
from ranking.measures import average_precision_of_scores
from ranking.prefixes import (
    Floats,
    Integers,
    deviations_prefix,
    ranking_order,
    share_prefix,
    threshold_prefix,
)
from ranking.tuning import Chosen, Counted, Family

Source = Literal["votes", "ranker", "both"]
WEIGHTS: dict[Source, tuple[float, ...]] = {"votes": (0.0,), "ranker": (1.0,), "both": (0.25, 0.5, 0.75)}
"""Weights of the ranker."""


class _Grid(NamedTuple):
    """Cut-offs of one kind, and how many each of them keeps of a case's sums in falling order.

    It begins with the one that chooses least, so that the first of equals does so on new cases too.
    """

    scale: Literal["case", "none"]
    cutoffs: Sequence[Cutoff]
    kept: Callable[[Floats], Integers]


_SHARES = np.arange(1, 17) / 20
_KS = np.arange(1, 11)
_ABOVE = np.arange(8, -5, -1) / 4
_TAUS = np.concatenate([np.arange(19, 1, -1) / 20, [0.075, 0.05, 0.03, 0.02, 0.01]])
_GRIDS = (
    _Grid(
        "case", [Share(share=one) for one in _SHARES.tolist()], lambda sums: share_prefix(sums.size, _SHARES)
    ),
    _Grid("case", [TopK(k=k) for k in _KS.tolist()], lambda sums: np.minimum(_KS, sums.size)),
    _Grid(
        "case",
        [Deviations(above=one) for one in _ABOVE.tolist()],
        lambda sums: deviations_prefix(sums, _ABOVE),
    ),
    # Reads log-odds as they are: a probability, which for votes is a number of them.
    _Grid(
        "none",
        [FixedThreshold(tau=tau) for tau in _TAUS.tolist()],
        lambda sums: threshold_prefix(sums, _TAUS, fallback=True),
    ),
)


@dataclass(frozen=True, slots=True)
class Table:
    """Counts of every rule in every case.

    Attributes:
        families: From the simplest, each a grid of weights by parameters, with what its rules read.
        correct: Shape (cases, rules), as are `predicted` and `precision`.
        gold: Shape (cases,).
        precision: Average precision of a rule's ranking, nan where nothing is essential.
    """

    rules: Sequence[EvidenceRule]
    families: Sequence[tuple[Source, Family]]
    correct: Integers
    predicted: Integers
    gold: Integers
    precision: Floats

    def of(self, sources: Sequence[Source]) -> list[Family]:
        return [family for source, family in self.families if source in sources]


def count_rules(
    cases: Sequence[LabelledCase], *, log_odds: bool, tick: Callable[[], None] = lambda: None
) -> Table:
    """Count what every rule finds in every case.

    Args:
        cases: At least one, each with a sentence, all with the same sources.
        log_odds: Whether the ranker's scores are log-odds, which may be cut and added as they are.
        tick: Called after each case.
    """
    votes, ranker = cases[0].model is not None, cases[0].ranker is not None
    there: dict[Source, bool] = {"votes": votes, "ranker": ranker, "both": votes and ranker}
    rules: list[EvidenceRule] = []
    families: list[tuple[Source, Family]] = []
    blocks: list[tuple[EvidenceRule, _Grid]] = []
    for source, weights in WEIGHTS.items():
        for grid in _GRIDS if there[source] else ():
            if grid.scale == "none" and not (log_odds or source == "votes"):
                continue
            begin = len(rules)
            for weight in weights:
                rules += [
                    EvidenceRule(ranker_weight=weight, scale=grid.scale, cutoff=cutoff)
                    for cutoff in grid.cutoffs
                ]
                blocks.append((rules[-1], grid))
            shape = (len(weights), len(grid.cutoffs))
            families.append((source, Family(slice(begin, len(rules)), shape, smoothed=True)))
    correct, predicted = (np.zeros((len(cases), len(rules)), dtype=np.int64) for _ in range(2))
    precision = np.zeros(correct.shape)
    for row, case in enumerate(cases):
        column = 0
        for rule, grid in blocks:
            sums = add_up(rule, case.model, case.ranker)
            order = ranking_order(sums)
            at = slice(column, column + len(grid.cutoffs))
            predicted[row, at] = grid.kept(sums[order])
            correct[row, at] = np.cumsum(case.essential[order])[predicted[row, at] - 1]
            average = average_precision_of_scores(sums, case.essential.tolist())
            precision[row, at] = np.nan if average is None else average
            column = at.stop
        tick()
    gold = np.array([case.essential.sum() for case in cases], dtype=np.int64)
    return Table(rules, families, correct, predicted, gold, precision)


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
    # Not by the fingerprint itself: it may end in a user's choice of ids.
    return hash_order(set(fingerprints), lambda fingerprint: f"calibrate {fingerprint}")


def choose(table: Table, rows: Integers, parts: Parts, sources: Sequence[Source]) -> Chosen:
    """The rule of the best kind, with the best parameters, on some cases."""
    return _counted(table, parts, rows).best_of(table.of(sources))


def choose_by_others(
    table: Table, parts: Parts, sources: Sequence[Source], tick: Callable[[], None] = lambda: None
) -> Integers:
    """For each case, the column of the rule chosen on all other parts, shape (cases,)."""
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
