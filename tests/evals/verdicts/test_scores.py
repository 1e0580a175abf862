from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cases.records import Verdict
from cli.measuring.print_scores import print_scores
from evals.verdicts.scores import Classes, VerdictScores, case_matrix, score_questions, statistics
from graph.timeaware import TimeawareRecipe
from tests.nodes.literature_builders import read_as

NAMES: dict[Classes, tuple[Verdict, ...]] = {2: ("no", "yes"), 3: ("no", "yes", "unknown")}


def scored(gold: Sequence[int], given: Sequence[int], classes: Classes) -> dict[str, float]:
    """By numbers of answers, as the specification writes them."""
    names = NAMES[classes]
    matrix = case_matrix([names[one] for one in gold], [names[one] for one in given], classes)
    totals = matrix.sum(axis=0)
    return {name: float(one.of(totals, len(gold))) / 100 for name, one in statistics(classes).items()}


@pytest.mark.parametrize(
    ("gold", "given", "classes", "expected"),
    [
        ([1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 1], 2, (0.5, 0.5, 0.485714)),
        ([0, 0, 1, 1, 1, 2], [0, 1, 1, 1, 2, 1], 3, (0.5, 0.388889, 0.412698)),
    ],
)
def test_macro_scores_are_means_over_the_answers(
    gold: list[int], given: list[int], classes: Classes, expected: tuple[float, ...]
) -> None:
    found = scored(gold, given, classes)
    names = ("macro_precision", "macro_recall", "macro_f1")
    assert [found[name] for name in names] == pytest.approx(expected, abs=5e-7)


def test_an_answer_that_nobody_gives_counts_as_nothing() -> None:
    assert scored([0, 1], [1, 1], 2)["macro_precision"] == pytest.approx(0.25)
    assert scored([0, 1], [1, 1], 2)["accuracy"] == pytest.approx(0.5)


def test_many_draws_are_scored_at_once() -> None:
    matrix = case_matrix(["yes", "no"], ["yes", "yes"], 2)
    draws = np.array([[1.0, 1.0], [2.0, 0.0]]) @ matrix
    assert statistics(2)["accuracy"].of(draws, 2).tolist() == [50.0, 100.0]


def questions(classes: Classes, *read: tuple[Verdict, str], **recipe: Any) -> VerdictScores:
    """By what the key says and how the passages were read; one more question has failed."""
    key: dict[str, Verdict] = {str(number): gold for number, (gold, _) in enumerate(read)}
    passages = {str(number): read_as(letters) for number, (_, letters) in enumerate(read)}
    found = score_questions(
        {**key, "failed": "yes"}, passages, TimeawareRecipe.model_validate(recipe), classes
    )
    assert found is not None
    return found


def test_two_answers_leave_out_questions_whose_key_is_unknown() -> None:
    found = questions(2, ("yes", "SN"), ("unknown", "NN"), ("no", "SR"))
    assert (found.case_ids, found.gold, found.given) == (("0", "2"), {"yes": 1, "no": 1}, {"yes": 1, "no": 1})
    assert found.headline_value == 100


def test_three_answers_are_counted_by_their_own_rule_of_ties() -> None:
    assert questions(3, ("no", "SR"), ("unknown", "")).given == {"yes": 1, "no": 0, "unknown": 1}


def test_a_case_that_failed_is_named_and_never_wrong() -> None:
    found = questions(2, ("yes", "S"), ("no", "R"))
    assert (found.unscored, found.values["accuracy"]) == (("failed",), 100)


def test_cases_that_were_not_done_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores("run", [questions(2, ("yes", "S"), ("no", "R"))])
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  key: 1 yes, 1 no; given: 1 yes, 1 no")
    assert lines[at + 1] == "  not done: 1 case (failed)"


def test_every_value_has_its_interval() -> None:
    three: list[tuple[Verdict, str]] = [("yes", "S"), ("no", "S"), ("no", "R")]
    found = questions(2, *three * 4).intervals()
    assert all(one.low <= one.value <= one.high for one in found.values())
    assert found["macro_f1"].low < found["macro_f1"].high


def test_what_follows_the_released_code_is_told() -> None:
    found = questions(3, ("yes", "S"), reading={"doc_mode": "top3"})
    assert "As in the released code: doc_mode=top3." in found.notes


def test_no_question_of_an_answer_is_no_score() -> None:
    recipe = TimeawareRecipe.model_validate({})
    assert score_questions({"0": "unknown"}, {"0": read_as("N")}, recipe, 2) is None
