"""Every rule that is tried, counted at once in every case.

Few and readable: three sources (votes, ranker, both by three weights) and four kinds of cut-off. Since micro
F1 is made of sums over cases, leaving cases out is a subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.calibration.labelled_cases import LabelledCase
from nodes.evidence.rule import EvidenceRule
from ranking.cutoffs import Cutoff, Deviations, FixedThreshold, Share, TopK
from ranking.prefixes import Floats, Integers, probabilities, share_prefix
from ranking.tuning import Family

Source = Literal["votes", "ranker", "both"]
WEIGHTS: dict[Source, tuple[float, ...]] = {"votes": (0.0,), "ranker": (1.0,), "both": (0.25, 0.5, 0.75)}
"""Of the ranker."""

# Every grid begins with the rule that chooses least, so that the first of equals does so on new cases too.
_SHARES = np.arange(1, 17) / 20
_KS = np.arange(1, 11)
_ABOVE = np.arange(8, -5, -1) / 4
_TAUS = np.concatenate([np.arange(19, 1, -1) / 20, [0.075, 0.05, 0.03, 0.02, 0.01]])
_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class Table:
    """Counts of every rule in every case.

    Attributes:
        rules: All of them.
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
        """The families of some sources."""
        return [family for source, family in self.families if source in sources]


class _Ranking(NamedTuple):
    """All cases' sentences by falling sums: of case after case, flat, with the ranks from 0."""

    sums: Floats
    labels: Integers
    hits: Integers


@dataclass(frozen=True, slots=True)
class _Flat:
    """Sentences of all cases, one case after the other."""

    starts: Integers
    sizes: Integers
    case: Integers
    labels: NDArray[np.bool_]

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of each case."""
        return np.add.reduceat(values, self.starts)

    def standardised(self, values: Floats) -> Floats:
        """As `ranking.prefixes.standardised`, case by case."""
        centred = values - np.repeat(self.sum(values) / self.sizes, self.sizes)
        spread = np.sqrt(self.sum(centred**2) / self.sizes)
        varied = spread > _EPSILON
        factors = np.where(varied, 1 / np.where(varied, spread, 1.0), 0.0)
        return np.asarray(centred * np.repeat(factors, self.sizes))

    def ranked(self, sums: Floats) -> _Ranking:
        """Sort within the cases; of equals the earlier sentence comes first."""
        order = np.lexsort((-sums, self.case))
        labels = self.labels[order].astype(np.int64)
        running = np.cumsum(labels)
        return _Ranking(sums[order], labels, running - np.repeat(self._before(running), self.sizes))

    def _before(self, running: Integers) -> Integers:
        return np.concatenate(([0], running[self.starts[1:] - 1]))

    def correct(self, ranking: _Ranking, kept: Integers) -> Integers:
        """Essential sentences among the first `kept` of each case."""
        return np.asarray(ranking.hits[self.starts + kept - 1])

    def precision(self, ranking: _Ranking) -> Floats:
        """Average precision of each case, nan where nothing is essential."""
        ranks = np.arange(self.case.size) - np.repeat(self.starts, self.sizes) + 1
        totals = self.sum(ranking.labels)
        sums = self.sum(ranking.labels * ranking.hits / ranks)
        return np.asarray(np.divide(sums, totals, out=np.full(totals.size, np.nan), where=totals > 0))


def count_rules(
    cases: Sequence[LabelledCase], *, log_odds: bool, tick: Callable[[], None] = lambda: None
) -> Table:
    """Count what every rule finds in every case.

    Args:
        cases: At least one, each with a sentence, all with the same sources.
        log_odds: Whether the ranker's scores are log-odds, which may be cut and added as they are.
        tick: Called after each weight.
    """
    sizes = np.array([case.essential.size for case in cases])
    flat = _Flat(
        np.concatenate(([0], np.cumsum(sizes)[:-1])),
        sizes,
        np.repeat(np.arange(sizes.size), sizes),
        np.concatenate([case.essential for case in cases]),
    )
    model = _joined([case.model for case in cases])
    ranker = _joined([case.ranker for case in cases])
    there = {"votes": model is not None, "ranker": ranker is not None}
    there["both"] = all(there.values())
    blocks: dict[tuple[Source, str], list[_Block]] = {}
    for source, weights in WEIGHTS.items():
        if not there[source]:
            continue
        for weight in weights:
            parts = [(1 - weight, model), (weight, ranker)]
            used = [(part, values) for part, values in parts if part and values is not None]
            case_wise = np.sum([part * flat.standardised(values) for part, values in used], axis=0)
            for kind, block in _of_case(flat, case_wise, weight):
                blocks.setdefault((source, kind), []).append(block)
            if log_odds or source == "votes":
                plain = np.sum([part * values for part, values in used], axis=0)
                blocks.setdefault((source, "threshold"), []).append(_of_thresholds(flat, plain, weight))
            tick()
    return _table(flat, blocks)


class _Block(NamedTuple):
    """Rules of one weight: counts have shape (cases, rules), the precision (cases,)."""

    rules: list[EvidenceRule]
    correct: Integers
    predicted: Integers
    precision: Floats


def _of_case(flat: _Flat, sums: Floats, weight: float) -> list[tuple[str, _Block]]:
    """Rules that read the order, and distances within a case."""
    ranking = flat.ranked(sums)
    standard = flat.standardised(sums)
    above = np.stack([flat.sum((standard >= least - _EPSILON).astype(np.int64)) for least in _ABOVE], axis=1)
    grids: dict[str, tuple[list[Cutoff], Integers]] = {
        "share": (
            [Share(share=share) for share in _SHARES.tolist()],
            share_prefix(flat.sizes[:, None], _SHARES),
        ),
        "top_k": ([TopK(k=k) for k in _KS.tolist()], np.minimum(_KS, flat.sizes[:, None])),
        "deviations": ([Deviations(above=least) for least in _ABOVE.tolist()], np.maximum(above, 1)),
    }
    return [
        (kind, _block(flat, ranking, kept, [_rule(weight, "case", cutoff) for cutoff in cutoffs]))
        for kind, (cutoffs, kept) in grids.items()
    ]


def _of_thresholds(flat: _Flat, sums: Floats, weight: float) -> _Block:
    """Rules that read log-odds as they are: a probability, which for votes is a number of them."""
    shares = probabilities(sums)
    kept = np.stack([flat.sum((shares >= tau).astype(np.int64)) for tau in _TAUS], axis=1)
    cutoffs = [FixedThreshold(tau=tau) for tau in _TAUS.tolist()]
    rules = [_rule(weight, "none", cutoff) for cutoff in cutoffs]
    return _block(flat, flat.ranked(sums), np.maximum(kept, 1), rules)


def _rule(weight: float, scale: Literal["case", "none"], cutoff: Cutoff) -> EvidenceRule:
    return EvidenceRule(ranker_weight=weight, scale=scale, cutoff=cutoff)


def _block(flat: _Flat, ranking: _Ranking, kept: Integers, rules: list[EvidenceRule]) -> _Block:
    correct = np.stack([flat.correct(ranking, kept[:, column]) for column in range(len(rules))], axis=1)
    return _Block(rules, correct, kept, flat.precision(ranking))


def _table(flat: _Flat, blocks: dict[tuple[Source, str], list[_Block]]) -> Table:
    families, begin = [], 0
    for (source, _), of_weights in blocks.items():
        count = len(of_weights[0].rules)
        end = begin + count * len(of_weights)
        families.append((source, Family(slice(begin, end), (len(of_weights), count), smoothed=True)))
        begin = end
    every = [block for of_weights in blocks.values() for block in of_weights]
    return Table(
        rules=[rule for block in every for rule in block.rules],
        families=families,
        correct=np.concatenate([block.correct for block in every], axis=1),
        predicted=np.concatenate([block.predicted for block in every], axis=1),
        gold=flat.sum(flat.labels.astype(np.int64)),
        precision=np.concatenate(
            [np.repeat(block.precision[:, None], len(block.rules), axis=1) for block in every], axis=1
        ),
    )


def _joined(parts: Sequence[Floats | None]) -> Floats | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None
