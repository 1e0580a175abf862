"""Scores of rankings."""

from __future__ import annotations

import pytest

from evals.rankings.scores import curve_svg, score_rows
from ranking.rank_file import RankedRow


def row(selected: str, gold: str | None, *, weak: bool = False) -> RankedRow:
    """Four sentences a to d, ranked in this order."""
    return RankedRow(
        id="x",
        selected=tuple(selected),
        scores={"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0},
        cut_sentences=("d",),
        query_cut=False,
        gold=None if gold is None else tuple(gold),
        weak=weak,
    )


def test_micro_pools_and_macro_averages() -> None:
    values = score_rows([row("ab", "a"), row("a", "abc")]).values
    assert values["micro_precision"].value == pytest.approx(100 * 2 / 3)
    assert values["micro_recall"].value == pytest.approx(50)
    assert values["macro_f1"].value == pytest.approx(100 * (2 / 3 + 1 / 2) / 2)


def test_average_precision_is_over_examples_that_have_evidence() -> None:
    values = score_rows([row("a", "b"), row("a", "bd"), row("a", "")]).values
    assert values["average_precision"].value == pytest.approx(50)


def test_nothing_selected_where_nothing_is_evidence_is_perfect() -> None:
    values = score_rows([row("", "")]).values
    assert values["macro_f1"].value == 100
    assert "average_precision" not in values


def test_an_interval_holds_the_value() -> None:
    its = score_rows([row("a", "a"), row("b", "a"), row("ab", "ab"), row("c", "d")] * 5).values["micro_f1"]
    assert its.low < its.value < its.high


def test_weak_and_missing_labels_are_counted_and_not_scored() -> None:
    found = score_rows([row("a", "a", weak=True), row("a", None)])
    assert (found.examples, found.weak, found.scored, found.values) == (2, 1, 0, {})


def test_cut_sentences_are_counted() -> None:
    assert score_rows([row("a", "a")] * 3).cut_sentences == 3


def test_a_curve_goes_on_after_pre_training_behind_a_line() -> None:
    first = [{"phase": "pretrain", "step": step, "loss": 1.0} for step in (1, 80)]
    second = [
        {"phase": "train", "step": 1, "loss": 0.5},
        {"phase": "train", "step": 40, "micro_f1": 0.5, "average_precision": 0.6},
    ]
    both, alone = curve_svg([*second, *first]), curve_svg(second)
    assert (both.count("stroke-dasharray"), alone.count("stroke-dasharray")) == (1, 0)
    assert (both.count(">120<"), alone.count(">120<")) == (1, 0)
    assert both.count(">held out<") == alone.count(">held out<") == 1
    assert ">held out<" not in curve_svg(first)
