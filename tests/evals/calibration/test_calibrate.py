"""A calibration as a whole: figures of cases that the choice has not seen, and a recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evals.calibration.calibrate import (
    AS_IT_IS,
    CALIBRATED,
    EVERY,
    RiskWish,
    calibrate,
    with_probabilities,
)
from evals.calibration.recipe import calibrated_values, write_recipe
from evals.calibration.render import as_object, curve_svg, table_of
from evals.errors import CalibrationError
from graph.recipe import load_recipe, make_recipe
from nodes.evidence.calibration import Bound, CalibrationSettings
from nodes.evidence.rule import EvidenceRule
from nodes.evidence.settings import EvidenceSettings, ReviewSettings
from ranking.cutoffs import Share
from tests.evals.calibration.worlds import data, world


def test_the_rows_are_of_the_same_cases_and_add_up() -> None:
    cases = world(1, 30)
    made = calibrate(data(cases), None, None)
    rows = made.rows
    assert list(rows) == [AS_IT_IS, EVERY, CALIBRATED]
    assert rows[EVERY]["recall"].value == 1.0
    gold = sum(case.essential.sum() for case in cases)
    assert rows[EVERY]["precision"].value == pytest.approx(gold / sum(case.essential.size for case in cases))
    chosen = sum(case.uncalibrated.sum() for case in cases)
    correct = sum((case.uncalibrated & case.essential).sum() for case in cases)
    assert rows[AS_IT_IS]["f1"].value == pytest.approx(2 * correct / (chosen + gold))
    assert [(gain.rule, gain.against) for gain in made.gains] == [(CALIBRATED, AS_IT_IS), (CALIBRATED, EVERY)]
    for gain in made.gains:
        assert gain.f1.value == pytest.approx(rows[CALIBRATED]["f1"].value - rows[gain.against]["f1"].value)
    assert made.no_better_than == []
    assert made.optimism == pytest.approx(made.in_sample - made.f1.value)
    assert made.f1.low < made.f1.value < made.f1.high
    assert sum(made.picks.values()) == 30


def test_both_sources_are_held_against_each_alone() -> None:
    cases = [replace(case, model=np.zeros(case.essential.size)) for case in world(1, 30, voted=True)]
    made = calibrate(data(cases), None, None)
    rows = {name: values["f1"].value for name, values in made.rows.items()}
    assert [*rows][3:] == ["votes alone", "ranker alone", "votes and ranker"]
    assert len(table_of(made).rows) == 6
    votes, ranker = made.gains[2:]
    assert (votes.rule, votes.against, ranker.against) == ("votes and ranker", "votes alone", "ranker alone")
    assert votes.f1.value == pytest.approx(rows["votes and ranker"] - rows["votes alone"])
    assert votes.p_value < 0.01, "equal votes say nothing"
    assert ranker.f1.value == pytest.approx(rows["votes and ranker"] - rows["ranker alone"])
    assert ranker.p_value > 0.1, "nor do they add to a ranker"


def test_scores_without_meaning_gain_nothing_on_unseen_cases() -> None:
    """In-sample figures would; those that are reported must not."""
    random = np.random.default_rng(3)
    cases = [replace(case, essential=random.permutation(case.essential)) for case in world(2, 12)]
    cases = [replace(case, ranker=random.standard_normal(case.essential.size)) for case in cases]
    made = calibrate(data(cases), None, None)
    assert made.optimism > 0


def test_a_test_split_reports_the_cases_set_aside_alone() -> None:
    made = calibrate(data(world(1, 40)), 0.25, None)
    assert (made.chosen_on, made.tested_on) == (30, 10)
    assert made.split == "25% of the cases set aside"
    assert len(made.picks) == 1


@pytest.mark.parametrize(
    ("names", "fault"), [(["a"] * 5, "all 5 cases have the same texts"), (["a", "b"], "leaves no case")]
)
def test_cases_that_cannot_be_kept_apart_are_refused(names: list[str], fault: str) -> None:
    cases = [replace(case, fingerprint=name) for case, name in zip(world(1, len(names)), names, strict=True)]
    with pytest.raises(CalibrationError, match=fault):
        calibrate(data(cases), 0.9, None)


def test_the_regression_finds_the_slope_of_its_own_labels() -> None:
    random = np.random.default_rng(9)
    cases = []
    for case in world(6, 400, size=20):
        assert case.ranker is not None
        sums = random.standard_normal(case.ranker.size)
        labels = random.random(sums.size) < 1 / (1 + np.exp(-(1.7 * sums - 0.8)))
        cases.append(replace(case, ranker=sums, essential=labels))
    rule = with_probabilities(EvidenceRule(ranker_weight=1, scale="none", cutoff=Share()), cases)
    assert rule.slope == pytest.approx(1.7, abs=0.15)
    assert rule.intercept == pytest.approx(-0.8, abs=0.1)


def test_separable_labels_have_a_finite_slope() -> None:
    cases = [replace(case, ranker=np.where(case.essential, 3.0, -3.0)) for case in world(6, 5)]
    rule = with_probabilities(EvidenceRule(ranker_weight=1, cutoff=Share()), cases)
    assert rule.slope is not None
    assert np.isfinite(rule.slope)


def test_the_recipe_has_the_rule_and_is_one() -> None:
    made = calibrate(data(world(1, 20)), None, None)
    values = calibrated_values(made, "mine.yaml")
    recipe = make_recipe(values, "mine.yaml")
    evidence = recipe.section(EvidenceSettings)
    assert evidence.rule == made.rule
    assert (evidence.voters, evidence.ranker) == ("ranker", "logistic")
    assert values["calibration"]["cases"] == 20
    assert values["calibration"]["models"] == {}


def test_a_rule_without_the_ranker_asks_no_ranker() -> None:
    cases = [replace(case, ranker=np.zeros(case.essential.size)) for case in world(4, 20, voted=True)]
    made = calibrate(data(cases), None, None)
    assert not made.rule.reads_ranker
    assert calibrated_values(made, "mine.yaml")["evidence"]["voters"] == "llm"


def test_a_bound_is_in_the_object_the_recipe_and_a_picture(tmp_path: Path) -> None:
    made = calibrate(data(world(5, 300)), None, RiskWish(0.15, 0.9, "wrong_labels"))
    found = as_object(made, "r.yaml")
    assert made.bound is not None
    assert found["bound"]["answered"] == made.bound.proven.answered
    assert found["scores"]["calibrated"]["f1"]["value"] == made.f1.value
    write_recipe(tmp_path / "r.yaml", made)
    recipe = load_recipe(str(tmp_path / "r.yaml"))
    assert recipe.section(ReviewSettings).confidence == made.bound.proven.threshold
    assert recipe.section(CalibrationSettings).bound == Bound(
        risk=0.15, confidence=0.9, loss="wrong_labels", cases=150, answered=made.bound.proven.answered
    )
    head = (tmp_path / "r.yaml").read_text("utf-8")
    assert "# Written by `evigraph calibrate` from 300 labelled cases.\n" in head
    assert "(wrong_labels) of cases answered without a person at most 0.15, with probability 0.9.\n" in head
    svg = curve_svg(made.bound)
    assert svg.startswith("<svg")
    assert "answered" in svg
