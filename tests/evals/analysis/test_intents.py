from __future__ import annotations

import pytest

from cases.records import Intent
from evals.analysis.intents import NONE, evidence_by_intent, intent_scores
from evals.scoring.gold import GoldCase
from tests.evals.analysis.examples import voted

GOLD = {
    str(number): GoldCase(str(number), intent=Intent(name))
    for number, name in enumerate(
        ["prognosis_severity", "prognosis_severity", "treatment_plan", "malignancy_concern"]
    )
}
MADE = {
    "0": ("prognosis_severity", None),
    "1": ("treatment_plan", "prognosis_severity"),
    "2": ("treatment_plan", None),
    "3": (None, None),
}


def test_accuracy_and_macro_f1() -> None:
    found = intent_scores(MADE, GOLD)
    assert found is not None
    assert (found.cases, found.accuracy, found.accuracy_with_secondary) == (4, 0.5, 0.75)
    # prognosis: P 1, R 1/2; treatment: P 1/2, R 1; malignancy: never predicted.
    assert found.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_no_known_intent_is_wrong_and_no_class() -> None:
    found = intent_scores(MADE, GOLD)
    assert found is not None
    assert found.confusion["malignancy_concern", NONE] == 1
    assert sum(found.confusion.values()) == 4


def test_cases_that_are_not_in_the_key_do_not_count() -> None:
    assert intent_scores({"9": ("treatment_plan", None)}, GOLD) is None
    assert intent_scores(MADE, {"0": GoldCase("0")}) is None


def test_evidence_goes_by_the_intent_of_the_key_and_else_by_the_predicted() -> None:
    groups = evidence_by_intent([voted("1", "30", "1", intent="treatment_plan"), voted("2", "03", "1")])
    assert [(group.name, group.strict_micro.f1) for group in groups] == [(NONE, 0.0), ("treatment_plan", 1.0)]
