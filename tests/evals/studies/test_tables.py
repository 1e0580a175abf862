from __future__ import annotations

import math

import pytest

from evals.studies.definition import Row, TableName
from evals.studies.figures import Scored
from evals.studies.render import as_csv, as_markdown
from evals.studies.tables import Block, StudyTable, make_table
from tests.evals.studies.invented import CASES, case, logits, scored, study

RIGHT = ("110", "001", "100")
WITH_LOGISTIC = {"x": Row(label="X"), "logistic": Row(label="Logistic", baseline="logistic")}
ONE_TOO_MANY = ("110", "011", "100")
"""4 correct of 5 chosen, 4 wanted: micro P 4/5, R 1, F1 8/9; macro P (1 + 1/2 + 1) / 3."""


def table(name: TableName, rows: Scored, *names: str) -> StudyTable:
    made = make_table(name, study(name, names or tuple(rows)), CASES, rows)
    assert made is not None
    return made


def value(block: Block, row: int, column: str) -> float:
    return block.rows[row].values[block.columns.index(column)].value


def test_micro_pools_sentences_and_macro_averages_cases() -> None:
    block = table("tamu-1", {"x": {1: scored(ONE_TOO_MANY)}}).blocks[0]
    assert value(block, 0, "Micro P") == pytest.approx(80)
    assert value(block, 0, "Micro R") == pytest.approx(100)
    assert value(block, 0, "Micro F1") == pytest.approx(100 * 8 / 9)
    assert value(block, 0, "Macro P") == pytest.approx(100 * 2.5 / 3)
    assert value(block, 0, "Macro F1") == pytest.approx(100 * (1 + 2 / 3 + 1) / 3)


def test_a_value_is_the_mean_over_seeds_with_students_interval() -> None:
    block = table("abridge-2", {"x": {1: scored(RIGHT), 2: scored(ONE_TOO_MANY)}}).blocks[0]
    interval = block.rows[0].values[0]
    first, second = 100.0, 100 * 8 / 9
    assert interval.value == pytest.approx((first + second) / 2)
    # t with one degree of freedom at 0.975 is 12.7062; s / sqrt(2) of two values is half of their distance.
    assert interval.value - interval.low == pytest.approx(12.7062 * (first - second) / 2, rel=1e-4)
    assert interval.high == 100


def test_one_seed_has_no_interval() -> None:
    block = table("abridge-2", {"x": {1: scored(RIGHT)}}).blocks[0]
    assert math.isnan(block.rows[0].values[0].low)


def test_cut_offs_are_tuned_on_the_tuning_part() -> None:
    of_tuning = {"t1": [5.0, 4.0, -5.0], "t2": [4.0, 5.0, -5.0]}
    sets = {**scored(("110", "001", "100")), "tuning": of_tuning}
    block = table("tamu-1", {"x": {1: sets}}).blocks[2]  # type: ignore[dict-item]
    assert block.rows[0].cutoffs == ("k=1",)
    assert value(block, 0, "Micro R") == pytest.approx(75)


def test_the_kind_of_rule_is_chosen_on_the_tuning_part_too() -> None:
    # Only the gap after the second of t1, and after the first of t2, is right in both.
    of_tuning = {"t1": [5.0, 4.9, -5.0], "t2": [-5.0, 1.0, -4.0]}
    labels = {"t1": case("t1", "110"), "t2": case("t2", "010")}
    sets = {**scored(RIGHT), "tuning": of_tuning}
    made = make_table("tamu-1", study("tamu-1", ["x"]), {**CASES, "tuning": labels}, {"x": {1: sets}})  # type: ignore[dict-item]
    assert made is not None
    titles = [block.title for block in made.blocks]
    block = made.blocks[titles.index("Rule and parameters chosen on the tuning part")]
    assert block.rows[0].cutoffs[0].startswith(("gap", "p>="))


def test_the_paper_s_threshold_takes_the_best_sentence_where_none_reaches_it_and_abridge_takes_none() -> None:
    nothing = scored(("000", "001", "100"))
    assert value(table("tamu-1", {"x": {1: nothing}}).blocks[0], 0, "Micro R") == pytest.approx(75)
    assert value(table("abridge-2", {"x": {1: nothing}}).blocks[0], 0, "R") == pytest.approx(50)


def test_characters_are_counted_where_the_paper_does() -> None:
    rows = {"x": {1: scored(RIGHT, noisy=("100", "001", "100"))}}
    block = table("abridge-5", rows).blocks[0]
    # Evidence: 10 + 20, 30, 10 characters; the noisy run misses the sentence of 20.
    assert value(block, 0, "Clean R") == pytest.approx(100)
    assert value(block, 0, "Noisy P") == pytest.approx(100)
    assert value(block, 0, "Noisy R") == pytest.approx(100 * 50 / 70)


def test_domains_have_a_column_each_and_one_for_all_that_are_not_trained_on() -> None:
    made = study("abridge-3", ["x"])
    row = made.rows["x"].model_copy(update={"train_on": "own"})
    made = made.model_copy(update={"rows": {**made.rows, "x": row}})
    rows = {"x": {1: scored(RIGHT, other=("10", "10"))}}
    table = make_table("abridge-3", made, CASES, rows)
    assert table is not None
    assert table.blocks[0].columns == ("own (trained on)", "other", "All others")
    assert value(table.blocks[0], 0, "own (trained on)") == pytest.approx(100)
    assert value(table.blocks[0], 0, "All others") == pytest.approx(50)


def test_baselines_have_their_own_cut_off_and_are_held_against_every_row() -> None:
    rows = {"x": {1: scored(RIGHT), 2: scored(ONE_TOO_MANY)}, "bm25": {0: scored(RIGHT)}}
    block = table("tamu-1", rows, "x").blocks[0]
    (comparison,) = block.rows[0].comparisons
    assert comparison.against == "bm25"
    # The best three are all three: 4 correct of 9, F1 8/13. Both seeds: 8 correct of 9, 8 wanted, F1 16/17.
    assert comparison.difference == pytest.approx(100 * (16 / 17 - 8 / 13))
    # Two groups, which both differ: of four exchanges two are as large.
    assert comparison.p_value == pytest.approx(0.5)


def test_rows_are_held_against_the_first_on_the_seeds_that_both_have() -> None:
    rows = {"x": {1: scored(RIGHT), 2: scored(RIGHT)}, "y": {2: scored(ONE_TOO_MANY)}}
    first, second = table("abridge-2", rows).blocks[0].rows
    assert first.comparisons == ()
    assert second.comparisons[0].difference == pytest.approx(100 * (8 / 9 - 1))
    assert second.comparisons[0].p_value == pytest.approx(1)


def test_a_row_without_scores_is_named_and_left_out() -> None:
    made = table("abridge-2", {"x": {1: scored(RIGHT)}, "y": {}})
    assert made.unfinished == ("Y",)
    assert [row.label for row in made.blocks[0].rows] == ["X"]


def test_nothing_finished_makes_no_table() -> None:
    assert make_table("abridge-2", study("abridge-2", ["x"]), CASES, {}) is None


def test_cut_offs_are_compared_over_one_ranker() -> None:
    labels = [row.label for row in table("tamu-2", {"x": {1: scored(RIGHT)}}).blocks[0].rows]
    assert labels[0] == "Fixed Threshold 0.4"
    assert {"Score-Gap Selection", "Adaptive Soft Dynamic-k, tuned", "Top-k, tuned"} <= set(labels)


def test_objectives_are_printed_as_shares_and_fusion_types_as_points() -> None:
    rows = {"x": {1: scored(ONE_TOO_MANY)}}
    assert "| X | 0.8333 |" in as_markdown([table("tamu-1", rows)], [])
    assert "| X | 88.89 |" in as_markdown([table("abridge-2", rows)], [])


def test_comma_separated_values_are_one_line_each() -> None:
    rows = {"x": {1: scored(RIGHT)}, "y": {1: scored(ONE_TOO_MANY)}}
    lines = as_csv([table("abridge-2", rows)]).splitlines()
    assert lines[0] == "table,block,row,column,value,low,high,p,seeds,cases"
    assert lines[1] == "abridge-2,,X,F-Score,100.0000,,,,1,3"
    assert any(line.startswith("abridge-2,,Y,F-Score vs X,-11.1111,,,1.0000") for line in lines)


def test_a_cut_off_of_a_row_is_that_of_the_baseline_it_is_held_against() -> None:
    """By the fixed threshold the baseline takes two sentences of b; the best one alone is right."""
    unsure = {**scored(RIGHT), "held-out": {**scored(RIGHT)["held-out"], "b": logits("001") * 0 + 1.0}}
    rows = {"x": {1: unsure}, "logistic": {0: unsure}}
    made = make_table(
        "tamu-2", study("tamu-2", ["x"]).model_copy(update={"rows": WITH_LOGISTIC}), CASES, rows
    )
    assert made is not None
    for row in made.blocks[0].rows:
        against = {one.against: one.difference for one in row.comparisons}
        assert against["Logistic"] == pytest.approx(0)
