"""The bound holds as often as it says, and is refused where nothing can be shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evals.calibration.calibrate import RiskWish, calibrate
from evals.calibration.risk import (
    Outcomes,
    cases_needed,
    fixed_sequence,
    loss_of,
    p_value,
    prove,
    upper_bound,
)
from evals.errors import CalibrationError
from nodes.evidence.calibration import LossName
from tests.evals.calibration.worlds import data, world

RISK, CONFIDENCE = 0.1, 0.9


@pytest.mark.parametrize(("risk", "confidence", "needed"), [(0.1, 0.9, 22), (0.05, 0.9, 45), (0.1, 0.95, 29)])
def test_so_many_cases_without_a_loss_show_a_bound(risk: float, confidence: float, needed: int) -> None:
    assert cases_needed(risk, confidence) == needed
    for binary in (True, False):
        assert p_value(np.zeros(needed), risk, confidence, binary=binary) <= 1 - confidence
        assert p_value(np.zeros(needed - 1), risk, confidence, binary=binary) > 1 - confidence


@pytest.mark.parametrize("binary", [True, False])
def test_no_case_shows_nothing(binary: bool) -> None:
    assert p_value(np.zeros(0), 0.1, 0.9, binary=binary) == 1.0
    assert upper_bound(np.zeros(0), 0.9, binary=binary) == 1.0


def test_one_loss_takes_more_cases() -> None:
    losses = np.zeros(38)
    losses[5] = 1
    assert p_value(losses, 0.1, 0.9, binary=True) == pytest.approx(0.0953, abs=1e-4)
    assert p_value(losses[:37], 0.1, 0.9, binary=True) > 0.1


@pytest.mark.parametrize("loss", ["any_wrong", "wrong_labels"])
def test_the_bound_holds_in_nine_of_ten_simulated_data_sets(loss: LossName) -> None:
    """A loss is likelier the less sure a case is: of those above a threshold t the risk is (1 - t)^3 / 8.

    So every threshold below 0.072 breaks the bound, and one such stands at the end of every sequence.
    """
    binary = loss == "any_wrong"
    broken = shown = 0
    for seed in range(1000):
        random = np.random.default_rng(seed)
        known, tested = (_outcomes(random, 150, binary=binary) for _ in range(2))
        sequence = fixed_sequence(known, 150, RISK, CONFIDENCE, binary=binary)
        proven = prove(sequence, tested, RISK, CONFIDENCE, binary=binary)[0]
        if proven is not None:
            shown += 1
            broken += (1 - proven.threshold) ** 3 / 8 > RISK
    assert shown > 500, "a bound that is hardly ever shown holds without being tested"
    assert broken <= 100


def _outcomes(random: np.random.Generator, count: int, *, binary: bool) -> Outcomes:
    confidences = random.random(count)
    likely = 0.5 * (1 - confidences) ** 3
    losses = random.random(count) < likely if binary else random.beta(3 * likely, 3 * (1 - likely))
    return Outcomes(confidences, losses.astype(np.float64))


def test_p_values_of_true_hypotheses_are_small_as_seldom_as_they_say() -> None:
    random = np.random.default_rng(7)
    wrong = (random.random((2000, 60)) < RISK).astype(np.float64)
    shares = random.beta(0.2, 1.8, (2000, 60))
    for binary, drawn in ((True, wrong), (False, wrong), (False, shares)):
        small = sum(p_value(losses, RISK, CONFIDENCE, binary=binary) <= 0.1 for losses in drawn)
        assert small <= 240


def test_losses_that_vary_little_show_more_than_hoeffding_could() -> None:
    losses = np.tile([0.0, 0.1], 30)
    assert p_value(losses, 0.1, 0.9, binary=False) < 0.1
    assert upper_bound(losses, 0.9, binary=False) < 0.1


def test_the_first_threshold_that_stands_ends_the_test() -> None:
    confidences = np.linspace(1, 0, 90)
    losses = np.zeros(90)
    losses[30:60] = 1.0
    proven, tested = prove([0.7, 0.4, 0.0], Outcomes(confidences, losses), RISK, CONFIDENCE, binary=True)
    assert proven is not None
    assert proven.threshold == 0.7
    assert [one.threshold for one in tested] == [0.7, 0.4]


def test_nothing_of_the_tested_cases_shapes_the_rule_or_the_thresholds() -> None:
    cases = world(11, 160)
    wish = RiskWish(0.3, 0.9, "wrong_labels")
    made = calibrate(data(cases), None, wish)
    assert made.bound is not None
    first = made.bound.tested[0].threshold
    aside = made.tested_on
    assert (aside, made.chosen_on) == (80, 80)
    from evals.calibration.candidates import held_out

    rows = set(held_out([case.fingerprint for case in cases], 0.5).tolist())
    perfect = [
        replace(case, essential=case.essential & (np.arange(case.essential.size) < 1))
        if row in rows
        else case
        for row, case in enumerate(cases)
    ]
    try:
        other = calibrate(data(perfect), None, wish)
    except CalibrationError as error:
        pytest.fail(str(error))
    assert other.rule == made.rule
    assert other.bound is not None
    assert other.bound.tested[0].threshold == first


def test_too_few_cases_are_refused_with_how_many_it_takes() -> None:
    with pytest.raises(
        CalibrationError, match=r"needs at least 22 labelled cases .* there are 20 of 40; label 4"
    ):
        calibrate(data(world(1, 40)), None, RiskWish(0.1, 0.9, "any_wrong"))


def test_a_risk_that_no_cases_keep_is_refused() -> None:
    with pytest.raises(CalibrationError, match=r"no set of cases is shown to have a risk of at most 0\.02"):
        calibrate(data(world(1, 300)), None, RiskWish(0.02, 0.9, "any_wrong"))


def test_a_bound_answers_the_surest_cases() -> None:
    made = calibrate(data(world(5, 400)), None, RiskWish(0.1, 0.9, "wrong_labels"))
    assert made.bound is not None
    proven = made.bound.proven
    assert 0 < proven.answered < made.bound.cases
    assert proven.loss < 0.1
    assert proven.p_value <= 0.1
    assert made.rule.slope is not None


@pytest.mark.parametrize(
    ("name", "value"), [("wrong_labels", 0.5), ("any_wrong", 1.0), ("missed", 0.5), ("f1", 0.5)]
)
def test_losses(name: LossName, value: float) -> None:
    chosen, essential = np.array([1, 1, 0, 0], dtype=bool), np.array([1, 0, 1, 0], dtype=bool)
    assert loss_of(name, chosen, essential) == pytest.approx(value)
    assert loss_of(name, essential, essential) == 0.0
    nothing = np.zeros(4, dtype=bool)
    assert loss_of(name, nothing, nothing) == 0.0
