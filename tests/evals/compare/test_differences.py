from __future__ import annotations

import pytest

from cases.submissions.archehr import Task
from evals.compare.differences import MetricDifference, Settings, compare_scores, verdict
from ranking.measures import Counts, EmptyRule, macro, micro
from tests.evals.compare.builders import FEW, task_scores

FIRST = [(1, 2, 3), (0, 0, 0), (2, 4, 2), (0, 1, 2)]
SECOND = [(2, 2, 3), (0, 1, 0), (2, 3, 2), (1, 1, 2)]
TEXTS = {"bleu": [1.0, 2, 3, 4], "rougeLsum": [10.0, 20, 30, 40]}
PARTS = ("precision", "recall", "f1")


def named(task: Task) -> dict[str, MetricDifference]:
    (found,) = compare_scores([task_scores(task, FIRST)], [task_scores(task, SECOND)], FEW)
    return {metric.name: metric for metric in found.metrics}


@pytest.mark.parametrize(
    ("task", "prefix", "empty"),
    [
        ("2026-2", "strict_", "perfect"),
        ("2026-2", "lenient_union_", "perfect"),
        ("2026-4", "", "zero"),
        ("2025", "lenient_", "zero"),
    ],
)
def test_values_are_those_of_the_scorer_under_the_leaderboards_names(
    task: Task, prefix: str, empty: EmptyRule
) -> None:
    found = named(task)
    counts = [Counts(*each) for each in FIRST], [Counts(*each) for each in SECOND]
    for average, function in (("micro", micro), ("macro", macro)):
        for part in PARTS:
            metric = found[f"{prefix}{average}_{part}"]
            wanted = [100 * getattr(function(side, empty), part) for side in counts]
            assert [metric.first.value, metric.second.value] == pytest.approx(wanted)
            assert metric.difference.value == pytest.approx(wanted[1] - wanted[0])
            assert metric.difference.low <= metric.difference.value <= metric.difference.high


def test_the_overall_score_of_answers_is_the_mean_of_its_metrics() -> None:
    names = ("alignscore", "rougeLsum", "medcon", "bertscore")
    first = {name: [float(place), place + 2.0] for place, name in enumerate(names)}
    second = {name: [value + 10 for value in values] for name, values in first.items()}
    (found,) = compare_scores([task_scores("2026-1", (), first)], [task_scores("2026-1", (), second)], FEW)
    overall = found.metrics[-1]
    assert (overall.name, overall.first.value, overall.second.value) == ("overall_score", 2.5, 12.5)


def test_a_missing_metric_leaves_no_overall_score() -> None:
    (found,) = compare_scores([task_scores("2026-3", (), TEXTS)], [task_scores("2026-3", (), TEXTS)], FEW)
    assert [metric.name for metric in found.metrics] == ["bleu", "rougeLsum", "mean_of_available"]


def test_the_overall_score_of_2025_is_half_factuality() -> None:
    names = ("alignscore", "rougeLsum", "bleu", "medcon", "bertscore", "sari")
    scores = task_scores("2025", FIRST, {name: [8.0] * 4 for name in names})
    (found,) = compare_scores([scores], [scores], FEW)
    values = {metric.name: metric.first.value for metric in found.metrics}
    assert values["overall_score"] == pytest.approx((values["strict_micro_f1"] + 8) / 2)


@pytest.mark.parametrize(("task", "other"), [("2025", "lenient_2026_"), ("2026-2", "lenient_union_")])
def test_the_other_years_meaning_of_lenient_is_left_out_of_short_tables(task: Task, other: str) -> None:
    found = named(task)
    assert found["lenient_micro_f1"].main
    assert not found[f"{other}micro_f1"].main


def test_only_cases_that_both_runs_have_scored_count() -> None:
    first = task_scores("2026-2", FIRST, ids=["a", "b", "c", "d"])
    second = task_scores("2026-2", SECOND, ids=["d", "b", "x", "a"])
    (found,) = compare_scores([first], [second], FEW)
    assert (found.cases, found.paired.only_first, found.paired.only_second) == (3, ("c",), ("x",))
    value = found.metrics[2].first.value
    assert value == pytest.approx(100 * micro([Counts(*FIRST[place]) for place in (0, 1, 3)], "perfect").f1)


def test_a_metric_of_one_run_is_named_and_not_compared() -> None:
    first = task_scores("2026-3", (), TEXTS)
    second = task_scores("2026-3", (), {"bleu": TEXTS["bleu"]})
    (found,) = compare_scores([first], [second], FEW)
    assert [metric.name for metric in found.metrics] == ["bleu"]
    assert found.paired.not_shared == ("mean_of_available", "rougeLsum")


def test_a_verdict_weighs_the_interval_and_the_test() -> None:
    right, wrong = [(3, 3, 3)], [(1, 3, 3)]
    for cases, meaning in (
        (3, "the interval excludes 0, but the test does not confirm a difference"),
        (12, "a difference that chance hardly explains"),
    ):
        sides = (task_scores("2026-2", side * cases) for side in (right, wrong))
        (found,) = compare_scores([next(sides)], [next(sides)], FEW)
        said = verdict(found)
        assert said.startswith("strict_micro_f1: B is 66.67 below A") and said.endswith(f": {meaning}.")


def test_a_task_of_one_run_is_left_out() -> None:
    assert compare_scores([task_scores("2026-2", FIRST)], [], FEW) == []


def test_the_best_of_many_gets_wider_intervals_and_larger_p_values() -> None:
    first = [task_scores("2026-2", FIRST * 3)]
    second = [task_scores("2026-2", SECOND * 3)]
    (alone,) = compare_scores(first, second, Settings(resamples=999))
    (best,) = compare_scores(first, second, Settings(resamples=999, candidates=8))
    assert Settings(candidates=8).level == pytest.approx(1 - 0.05 / 8)
    one, other = alone.metrics[2], best.metrics[2]
    assert other.difference.low < one.difference.low < one.difference.high < other.difference.high
    assert other.p_value == pytest.approx(min(1, 8 * one.p_value))
