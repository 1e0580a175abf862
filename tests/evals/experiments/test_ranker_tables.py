"""Tables of rankers that nobody trained, with figures that can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from evals.experiments.definition import RankerTable
from evals.experiments.ranker_tables import make_ranker_tables
from evals.experiments.rankers import HELD_OUT, NOISY, TUNING, PlannedRanker, RankerPlan, SetScores
from evals.experiments.render import as_csv, as_markdown, as_object, as_page
from evals.experiments.tables import PaperTable
from ranking.examples import Example
from ranking.rankers.ranker import Scores

SURE = 3.0
"""A logit above every threshold that is tuned, as its negative is below."""

RIGHT = ("110", "001", "100")
ONE_TOO_MANY = ("110", "011", "100")
"""4 correct of 5 chosen, 4 wanted: micro P 4/5, R 1, F1 8/9; macro P (1 + 1/2 + 1) / 3."""


def example(name: str, labels: str, group: str = "") -> Example:
    """Sentences with 1 are evidence; sentence n, from 1, has 10 n characters."""
    sentences = tuple("x" * 10 * (place + 1) for place in range(len(labels)))
    return Example(name, name, sentences, tuple(one == "1" for one in labels), name, group or name)


def logits(chosen: str) -> Scores:
    """Scores that say 1 or 0 surely."""
    return np.asarray([SURE if one == "1" else -SURE for one in chosen], dtype=np.float32)


CASES = (example("a", "110"), example("b", "001", "g"), example("c", "100", "g"))
SETS = {
    TUNING: (example("t1", "100"), example("t2", "010")),
    HELD_OUT: CASES,
    NOISY: CASES,
    "other": (example("d", "10"), example("e", "01")),
}


def scored(
    held_out: Sequence[str],
    noisy: Sequence[str] = RIGHT,
    other: Sequence[str] = ("10", "01"),
    tuning: Sequence[Scores] = (logits("100"), logits("010")),
) -> SetScores:
    """What a ranker chooses in each set; it is right on the tuning part."""
    chosen = {HELD_OUT: held_out, NOISY: noisy, "other": other}
    return {TUNING: tuning, **{name: [*map(logits, of_set)] for name, of_set in chosen.items()}}


def tables(table: RankerTable, rows: Mapping[str, Mapping[int, SetScores]]) -> list[PaperTable]:
    rankers = [
        PlannedRanker(name, seed, name if name in ("bm25", "logistic") else None, None, Path(name))
        for name, seeds in rows.items()
        for seed in seeds
    ]
    return make_ranker_tables(table, [*rows], RankerPlan(rankers, (), SETS, ()), rows)


def value(table: PaperTable, row: int, column: str) -> float:
    found = table.rows[row].values[table.columns.index(column)]
    assert found is not None
    return found.value


def test_micro_pools_sentences_and_macro_averages_cases() -> None:
    block = tables("1", {"x": {1: scored(ONE_TOO_MANY)}})[0]
    assert value(block, 0, "Micro P") == pytest.approx(80)
    assert value(block, 0, "Micro R") == pytest.approx(100)
    assert value(block, 0, "Micro F1") == pytest.approx(100 * 8 / 9)
    assert value(block, 0, "Macro P") == pytest.approx(100 * 2.5 / 3)
    assert value(block, 0, "Macro F1") == pytest.approx(100 * (1 + 2 / 3 + 1) / 3)


def test_a_value_is_the_mean_over_seeds_with_students_interval() -> None:
    (table,) = tables("abridge-2", {"x": {1: scored(RIGHT), 2: scored(ONE_TOO_MANY)}})
    interval = table.rows[0].values[-1]
    assert interval is not None
    first, second = 100.0, 100 * 8 / 9
    assert interval.value == pytest.approx((first + second) / 2)
    # t with one degree of freedom at 0.975 is 12.7062; s / sqrt(2) of two values is half of their distance.
    assert interval.value - interval.low == pytest.approx(12.7062 * (first - second) / 2, rel=1e-4)
    assert interval.high == 100
    assert "Means over seeds 1, 2;" in table.note


def test_one_seed_has_no_interval_and_null_ends() -> None:
    (table,) = tables("abridge-2", {"x": {1: scored(RIGHT)}})
    interval = table.rows[0].values[-1]
    assert interval is not None and math.isnan(interval.low)
    assert as_object(table)["rows"][0]["values"]["F1"] == {"value": 100.0, "interval": None}


def test_cut_offs_are_tuned_on_the_tuning_part() -> None:
    of_tuning = [np.asarray(one, np.float32) for one in ([5.0, 4.0, -5.0], [4.0, 5.0, -5.0])]
    block = tables("1", {"x": {1: scored(RIGHT, tuning=of_tuning)}})[2]
    assert block.part == "fixed top-k, k tuned on the tuning part"
    # The best one alone: three of four are found.
    assert value(block, 0, "Micro R") == pytest.approx(75)


def test_a_query_may_have_no_evidence_only_with_the_threshold_of_abridge() -> None:
    nothing = scored(("000", "001", "100"))
    assert value(tables("1", {"x": {1: nothing}})[0], 0, "Micro R") == pytest.approx(75)
    assert value(tables("abridge-2", {"x": {1: nothing}})[0], 0, "R") == pytest.approx(50)


def test_the_order_alone_is_scored_by_average_precision() -> None:
    block = tables("1", {"x": {1: scored(RIGHT)}})[-1]
    assert (block.columns, value(block, 0, "Average precision")) == (("Average precision",), 100)


def test_characters_are_counted_where_the_paper_does() -> None:
    (table,) = tables("abridge-5", {"x": {1: scored(RIGHT, noisy=("100", "001", "100"))}})
    # Evidence: 10 + 20, 30, 10 characters; the noisy run misses the sentence of 20.
    assert value(table, 0, "Clean R") == pytest.approx(100)
    assert value(table, 0, "Noisy P") == pytest.approx(100)
    assert value(table, 0, "Noisy R") == pytest.approx(100 * 50 / 70)


def test_domains_have_a_column_each_and_one_for_all() -> None:
    (table,) = tables("abridge-3", {"x": {1: scored(RIGHT, other=("10", "10"))}})
    assert table.columns == ("trained on", "other", "all others")
    assert value(table, 0, "trained on") == pytest.approx(100)
    assert value(table, 0, "all others") == pytest.approx(50)
    assert table.cases == 2


def test_a_baseline_has_a_number_in_place_of_thresholds_and_is_paired_with_every_seed() -> None:
    rows = {"bm25": {0: scored(RIGHT)}, "x": {1: scored(RIGHT), 2: scored(ONE_TOO_MANY)}}
    block = tables("1", rows)[0]
    compared = block.rows[1].to_first
    assert block.rows[0].to_first is None and compared is not None
    # The best three are all three: 4 correct of 9, F1 8/13. Both seeds: 8 correct of 9, 8 wanted, F1 16/17.
    assert compared.difference.value == pytest.approx(100 * (16 / 17 - 8 / 13))
    # Two groups, which both differ: of four exchanges two are as large.
    assert compared.p_value == pytest.approx(0.5)


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    rows = {"x": {1: scored(RIGHT), 2: scored(RIGHT)}, "y": {2: scored(ONE_TOO_MANY)}}
    compared = tables("abridge-2", rows)[0].rows[1].to_first
    assert compared is not None
    assert compared.difference.value == pytest.approx(100 * (8 / 9 - 1))
    assert compared.p_value == pytest.approx(1)
    apart = {"x": {1: scored(RIGHT)}, "y": {2: scored(ONE_TOO_MANY)}}
    assert tables("abridge-2", apart)[0].rows[1].to_first is None


def test_nothing_finished_makes_no_table() -> None:
    assert make_ranker_tables("abridge-2", ["x"], RankerPlan([], (), SETS, ()), {}) == []


def test_cut_offs_are_compared_over_one_ranker() -> None:
    one, other = tables("2", {"x": {1: scored(RIGHT)}, "y": {1: scored(RIGHT)}})
    assert (one.part, other.part) == ("x", "y")
    names = [row.name for row in one.rows]
    assert names[0] == "Fixed Threshold 0.4"
    assert {"Score-Gap Selection", "Adaptive Soft Dynamic-k, tuned", "Top-k, tuned"} <= set(names)


def test_objectives_are_printed_as_shares_and_fusion_types_as_points() -> None:
    rows = {"x": {1: scored(ONE_TOO_MANY)}}
    objectives = as_markdown(tables("1", rows), [])
    assert "## Table 1. Rankers by training objective: fixed threshold 0.4" in objectives
    assert "| x | 0.8333 |" in objectives
    fusion = as_markdown(tables("abridge-2", rows), [])
    assert "| x | 80.00 | 100.00 | 88.89 |" in fusion
    assert "95 % t-intervals over seeds" in fusion and "bootstrap" not in fusion


def test_every_part_has_a_plot_and_lines_without_intervals_have_empty_ends() -> None:
    made = tables("1", {"x": {1: scored(RIGHT)}, "y": {1: scored(ONE_TOO_MANY)}})
    page = as_page(made, [])
    assert page.count("<svg") == len(made) == 5
    assert "bootstrap" not in page
    lines = as_csv(made).splitlines()
    assert lines[0] == "table,row,column,value,low,high,cases"
    assert lines[1] == '"1: fixed threshold 0.4, as in the paper",x,Macro P,1.0000,,,3'
