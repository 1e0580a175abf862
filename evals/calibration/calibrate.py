"""One calibration: the rule, its worth on cases it has not seen, and the bound on what goes unreviewed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from cases.texts import plural
from evals.calibration.candidates import (
    Source,
    Table,
    choose,
    choose_by_others,
    count_rules,
    held_out,
    parts_of,
)
from evals.calibration.labelled_cases import CalibrationData, LabelledCase
from evals.calibration.risk import (
    Point,
    Tested,
    cases_needed,
    coverage_curve,
    fixed_sequence,
    is_binary,
    outcomes,
    promised_risk,
    prove,
)
from evals.errors import CalibrationError
from evals.statistics.bootstrap import SEED, Interval, intervals_of, paired_bootstrap
from evals.statistics.case_totals import CaseStatistic, Floats, Pooled, Ratio
from evals.statistics.sign_flip import swap_test
from nodes.evidence.calibration import LossName
from nodes.evidence.rule import DIGITS, EvidenceRule, add_up
from ranking.measures import PARTS, average_precision_of_scores
from ranking.prefixes import Integers
from ranking.rankers.load import gives_logits

AS_IT_IS, EVERY, CALIBRATED = "as it is", "every sentence", "calibrated"
_ALONE: Mapping[Source, str] = {"votes": "votes alone", "ranker": "ranker alone", "both": "votes and ranker"}


@dataclass(frozen=True, slots=True)
class RiskWish:
    """A bound that is wanted."""

    risk: float
    confidence: float
    loss: LossName


@dataclass(frozen=True, slots=True)
class Gain:
    """Advantage of one rule over another on the same cases.

    Attributes:
        rule: Name of its row.
        against: Name of the other's.
        f1: The difference, with its interval.
        p_value: Of that difference, by a two-sided randomisation test over cases.
    """

    rule: str
    against: str
    f1: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class BoundReport:
    """A bound that was shown, and the curve that goes with it."""

    wish: RiskWish
    proven: Tested
    tested: Sequence[Tested]
    cases: int
    curve: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Result of a calibration.

    Attributes:
        rule: For the recipe.
        rows: Rules by name on cases that they were not chosen on: `precision`, `recall`, `f1`, strict micro,
            and `average_precision`, the mean over cases. Shares of 1, intervals by bootstrap over cases.
        gains: Of the calibrated rule over the unchanged recipe and over taking every sentence, and of both
            sources together over each alone.
        chosen_on: Cases that the rule was chosen on.
        tested_on: Cases that the rows are of.
        split: How they were kept apart, in words.
        in_sample: F1 of the rule on the cases that it was chosen on.
        picks: How often each rule was chosen, in words.
    """

    data: CalibrationData
    rule: EvidenceRule
    rows: Mapping[str, Mapping[str, Interval]]
    gains: Sequence[Gain]
    chosen_on: int
    tested_on: int
    split: str
    in_sample: float
    picks: Mapping[str, int] = field(default_factory=dict)
    bound: BoundReport | None = None

    @property
    def no_better_than(self) -> list[str]:
        """Rows that the calibrated rule does not beat on cases that it was not chosen on."""
        return [gain.against for gain in self.gains if gain.rule == CALIBRATED and gain.f1.value <= 0]

    @property
    def f1(self) -> Interval:
        return self.rows[CALIBRATED]["f1"]

    @property
    def optimism(self) -> float:
        """Excess of F1 on the cases used for the choice."""
        return self.in_sample - self.f1.value


def calibrate(
    data: CalibrationData,
    test: float | None,
    wish: RiskWish | None,
    start: Callable[[str, int], None] = lambda task, total: None,
    advance: Callable[[int], None] = lambda done: None,
) -> Calibration:
    """Choose a rule, and report it on cases that the choice has not seen.

    These are one case left out in turn, or `test`, a share of the cases that is set aside. A bound needs such
    a share: half of all, unless another one is given.

    Raises:
        CalibrationError: There are too few cases, or no bound can be shown.
    """
    fingerprints = [case.fingerprint for case in data.cases]
    parts = parts_of(fingerprints)
    if parts.size < 2:
        raise CalibrationError(
            f"{data.origin}: all {plural(len(fingerprints), 'case')} have the same texts; a rule has"
            " to be tested on cases that it was not chosen on"
        )
    if wish is not None and test is None:
        test = 0.5
    aside = np.zeros(0, dtype=np.int64) if test is None else held_out(fingerprints, test)
    if wish is not None:
        _demand_enough(data, aside.size, wish)
    every = np.arange(len(fingerprints))
    kept = np.setdiff1d(every, aside)
    if not kept.size:
        raise CalibrationError(f"--test {test:g} leaves no case to choose a rule on; give a smaller share")
    start("rules", every.size)
    ticks = iter(range(1, every.size + 1))
    log_odds = data.ranker is not None and gives_logits(data.ranker)
    table = count_rules(data.cases, log_odds=log_odds, tick=lambda: advance(next(ticks)))
    there: list[Source] = list(dict.fromkeys(source for source, _ in table.families))
    chosen = choose(table, kept, parts, there)
    rule = with_probabilities(table.rules[chosen.column], [data.cases[row] for row in kept])
    columns: dict[str, Integers] = {}
    wanted: dict[str, list[Source]] = {CALIBRATED: there}
    if len(there) > 1:
        wanted |= {_ALONE[source]: [source] for source in there}
    start("cases left out", parts.size * len(wanted))
    ticks = iter(range(1, parts.size * len(wanted) + 1))
    for name, sources in wanted.items():
        if test is None:
            columns[name] = choose_by_others(table, parts, sources, lambda: advance(next(ticks)))
        else:
            columns[name] = np.full(every.size, choose(table, kept, parts, sources).column)
    reported = every if test is None else aside
    rows, gains = _rows(data, table, columns, reported)
    picked = columns[CALIBRATED][reported]
    names, counts = np.unique(picked, return_counts=True)
    picks = {str(table.rules[column]): int(count) for column, count in zip(names, counts, strict=True)}
    return Calibration(
        data=data,
        rule=rule,
        rows=rows,
        gains=gains,
        chosen_on=int(kept.size),
        tested_on=int(reported.size),
        split=_split(test, parts.size, len(set(fingerprints))),
        in_sample=chosen.f1,
        picks=dict(sorted(picks.items(), key=lambda one: -one[1])),
        bound=None if wish is None else _bound(data, rule, kept, aside, wish),
    )


def with_probabilities(rule: EvidenceRule, cases: Sequence[LabelledCase]) -> EvidenceRule:
    """The rule with the slope and intercept of a logistic regression on its sums (Platt 1999).

    Targets are drawn in by one case on either side, as Platt has it, so that separable labels have a slope.
    """
    sums = np.concatenate([add_up(rule, case.model, case.ranker) for case in cases])
    labels = np.concatenate([case.essential for case in cases])
    positive, negative = int(labels.sum()), int((~labels).sum())
    targets = np.where(labels, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(values: Floats) -> tuple[float, Floats]:
        logits = values[0] * sums + values[1]
        away = 0.5 * (1 + np.tanh(0.5 * logits)) - targets
        value = np.logaddexp(0, logits) - targets * logits
        return float(value.mean()), np.array([(away * sums).mean(), away.mean()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS")
    slope, intercept = (round(float(value), DIGITS) + 0.0 for value in found.x)
    return rule.model_copy(update={"slope": slope, "intercept": intercept})


def _rows(
    data: CalibrationData, table: Table, columns: Mapping[str, Integers], reported: Integers
) -> tuple[dict[str, dict[str, Interval]], list[Gain]]:
    gold = table.gold[reported]
    cases = [data.cases[row] for row in reported]
    sizes = np.array([case.essential.size for case in cases])
    uncalibrated = [(case.uncalibrated & case.essential).sum() for case in cases]
    sums = [case.uncalibrated_sums for case in cases]
    blocks = {
        AS_IT_IS: _numbers(
            uncalibrated, [case.uncalibrated.sum() for case in cases], gold, _precision(sums, cases)
        ),
        EVERY: _numbers(gold, sizes, gold, _precision([np.zeros(size) for size in sizes], cases)),
    }
    for name, picked in columns.items():
        at = (reported, picked[reported])
        blocks[name] = _numbers(table.correct[at], table.predicted[at], gold, table.precision[at])
    pairs = [(CALIBRATED, AS_IT_IS), (CALIBRATED, EVERY)]
    if _ALONE["both"] in columns:
        pairs += [(_ALONE["both"], _ALONE["votes"]), (_ALONE["both"], _ALONE["ranker"])]
    rows = {name: intervals_of(block, _STATISTICS) for name, block in blocks.items()}
    return rows, [_gain(rule, against, blocks) for rule, against in pairs]


def _gain(rule: str, against: str, blocks: Mapping[str, Floats]) -> Gain:
    first, second, f1 = blocks[against], blocks[rule], [_STATISTICS["f1"]]
    (found,) = paired_bootstrap(first, second, f1)
    return Gain(rule, against, found.difference, swap_test(first, second, f1)[0])


_STATISTICS: Mapping[str, CaseStatistic] = {
    **{part: Pooled(0, part, "perfect") for part in PARTS},
    "average_precision": Ratio(3, 4),
}


def _numbers(correct: ArrayLike, predicted: ArrayLike, gold: Integers, precision: Floats) -> Floats:
    """Columns of one rule: counts, average precision, and whether there is one."""
    there = np.isfinite(precision)
    columns = [correct, predicted, gold, np.where(there, precision, 0), there]
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def _precision(sums: Sequence[Floats], cases: Sequence[LabelledCase]) -> Floats:
    found = [
        average_precision_of_scores(one, case.essential.tolist())
        for one, case in zip(sums, cases, strict=True)
    ]
    return np.array([np.nan if value is None else value for value in found])


def _split(test: float | None, parts: int, texts: int) -> str:
    if test is not None:
        return f"{test:.0%} of the cases set aside"
    return "one case left out in turn" if parts == texts else f"one of {parts} parts left out in turn"


def _demand_enough(data: CalibrationData, tested: int, wish: RiskWish) -> None:
    needed = cases_needed(wish.risk, wish.confidence)
    if tested >= needed:
        return
    total = len(data.cases)
    share = f", or test on more of them: --test {(needed + 0.5) / total:.2f}" if needed < total - 1 else ""
    raise CalibrationError(
        f"{data.origin}: a risk of {wish.risk:g} at a confidence of {wish.confidence:g} needs at least"
        f" {needed} labelled cases that the rule was not chosen on, all without a loss, and there are"
        f" {tested} of {total}; label {max(1, 2 * needed - total)} more{share}"
    )


def _bound(
    data: CalibrationData, rule: EvidenceRule, kept: Integers, aside: Integers, wish: RiskWish
) -> BoundReport:
    binary = is_binary(wish.loss)
    known = outcomes(rule, [data.cases[row] for row in kept], wish.loss)
    # In an order that no file decides: the test bets on one case after the other.
    shuffled = np.random.default_rng(SEED).permutation(aside)
    tested = outcomes(rule, [data.cases[row] for row in shuffled], wish.loss)
    sequence = fixed_sequence(known, int(aside.size), wish.risk, wish.confidence, binary=binary)
    proven, tests = prove(sequence, tested, wish.risk, wish.confidence, binary=binary)
    if proven is None:
        first = tests[0]
        promise = promised_risk(known, int(aside.size), wish.confidence, binary=binary)
        raise CalibrationError(
            f"{data.origin}: no set of cases is shown to have a risk of at most {wish.risk:g}: the"
            f" {first.answered} surest of {aside.size} tested cases have a mean loss of {first.loss:.3f}"
            f" ({wish.loss}); those that the rule was chosen on promise {math.ceil(promise * 100) / 100:.2f};"
            " allow more, label more cases, or choose another --loss"
        )
    curve = coverage_curve(tested, wish.confidence, binary=binary)
    return BoundReport(wish, proven, tests, int(aside.size), curve)
