"""Measures by hand, by published tables, and as scikit-learn and ir_measures have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from functools import partial
from math import isnan
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from ranking.measures import (
    PARTS,
    Counts,
    Divisor,
    EmptyRule,
    PrecisionRecallF1,
    average_precision,
    average_precision_of_scores,
    count,
    count_characters,
    macro,
    micro,
    ndcg,
    recall,
    score_sums,
    scores,
)

PERFECT, NONE = PrecisionRecallF1(1.0, 1.0, 1.0), PrecisionRecallF1(0.0, 0.0, 0.0)


def positions(flags: list[bool]) -> set[int]:
    return {place for place, flag in enumerate(flags) if flag}


def test_counts_of_sets() -> None:
    assert count({"1", "2", "5"}, {"1", "2", "3"}) == Counts(2, 3, 3)


@pytest.mark.parametrize(("empty", "expected"), [("perfect", PERFECT), ("zero", NONE)])
def test_nothing_where_nothing_is_wanted(empty: EmptyRule, expected: PrecisionRecallF1) -> None:
    assert scores(Counts(0, 0, 0), empty) == expected
    assert micro([Counts(0, 0, 0)] * 3, empty) == expected


@pytest.mark.parametrize("empty", ["perfect", "zero"])
@pytest.mark.parametrize("one", [Counts(0, 2, 0), Counts(0, 0, 2)])
def test_one_side_empty_scores_nothing(one: Counts, empty: EmptyRule) -> None:
    assert scores(one, empty) == NONE


def test_an_empty_case_lifts_macro_and_leaves_micro() -> None:
    counts = [Counts(1, 2, 2), Counts(1, 1, 3)]
    more = [*counts, Counts(0, 0, 0)]
    assert micro(more, "perfect") == micro(counts, "perfect")
    assert macro(more, "perfect").f1 == pytest.approx((2 * macro(counts, "perfect").f1 + 1) / 3)


def test_no_cases_have_no_macro() -> None:
    assert all(isnan(value) for value in macro([], "perfect"))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (Counts(42, 84, 121), (0.5, 0.3471, 0.4098)),
        (Counts(46, 84, 147), (0.5476, 0.3129, 0.3983)),
        (Counts(102, 267, 121), (0.3820, 0.8430, 0.5258)),
        (Counts(76, 160, 121), (0.4750, 0.6281, 0.5409)),
        (Counts(100, 130, 121), (0.7692, 0.8264, 0.7968)),
        (Counts(103, 130, 121), (0.7923, 0.8512, 0.8207)),
        (Counts(102, 128, 121), (0.7969, 0.8430, 0.8193)),
    ],
)
def test_counts_of_the_paper_give_its_tables(counts: Counts, expected: tuple[float, float, float]) -> None:
    assert tuple(round(value, 4) for value in micro([counts], "perfect")) == expected


RULES: st.SearchStrategy[EmptyRule] = st.sampled_from(["perfect", "zero"])
LABELLED = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12)
COUNTS = st.tuples(*[st.integers(0, 30)] * 3).map(lambda one: Counts(min(one), *one[1:]))


@given(pairs=LABELLED, empty=RULES)
def test_scores_are_those_of_scikit_learn(pairs: list[tuple[bool, bool]], empty: EmptyRule) -> None:
    chosen, labels = [one for one, _ in pairs], [label for _, label in pairs]
    ours = scores(count(positions(chosen), positions(labels)), empty)
    if any(chosen) or any(labels):
        theirs = precision_recall_fscore_support(labels, chosen, average="binary", zero_division=0.0)
        assert ours == pytest.approx(theirs[:3], abs=1e-15)
    else:
        assert ours == (PERFECT if empty == "perfect" else NONE)


@given(ranks=st.permutations(range(8)), labels=st.lists(st.booleans(), min_size=8, max_size=8))
def test_average_precision_of_scores_is_that_of_scikit_learn(ranks: list[int], labels: list[bool]) -> None:
    ours = average_precision_of_scores(ranks, labels)
    if any(labels):
        assert ours == pytest.approx(average_precision_score(labels, ranks), abs=1e-12)
    else:
        assert ours is None


@given(counts=st.lists(COUNTS, min_size=1), empty=RULES)
def test_sums_score_as_the_counts_of_each(counts: list[Counts], empty: EmptyRule) -> None:
    correct, predicted, gold = np.asarray(counts, dtype=np.float64).T
    for place, part in enumerate(PARTS):
        one_by_one = [scores(each, empty)[place] for each in counts]
        found = score_sums(part, correct, predicted, gold, empty)
        # Only F1 has another form for sums.
        assert found.tolist() == (pytest.approx(one_by_one, abs=1e-15) if part == "f1" else one_by_one)


CASES = [count({1, 2, 5}, {1, 2, 3}), count({1, 2}, {2}), count(set[int](), {1, 4})]


def test_micro_pools_the_decisions_of_all_cases() -> None:
    assert micro(CASES, "perfect") == pytest.approx((0.6, 0.5, 0.5455), abs=5e-5)


def test_macro_is_the_mean_of_the_cases() -> None:
    assert macro(CASES, "perfect") == pytest.approx((0.3889, 0.5556, 0.4444), abs=5e-5)


def test_character_scores_weigh_sentences_by_their_length() -> None:
    lengths = [23, 14, 31]
    first = count_characters([0, 1], [True, False, True], lengths)
    second = count_characters([2], [False, False, True], lengths)
    assert (first + second) == (23, 37, 54, 31, 31, 31)
    assert micro([first, second], "zero") == pytest.approx((0.794118, 0.635294, 0.705882), abs=1e-6)


def test_average_precision_takes_ties_in_document_order() -> None:
    assert average_precision_of_scores([0, 0, 0], [False, True, False]) == pytest.approx(1 / 2)


def test_average_precision_needs_a_label_for_each_score() -> None:
    with pytest.raises(ValueError, match="1 label for 2 scores"):
        average_precision_of_scores([0.5, 0.1], [True])


GOLD = ("d1", "d2", "d3", "d4")
RANKED = ["d1", "x", "d2", "y", "z", "d3"]


def test_average_precision_divides_by_what_could_be_found() -> None:
    assert average_precision(RANKED, GOLD) == pytest.approx(2.1666667 / 4)
    twelve = [f"g{number}" for number in range(12)]
    assert average_precision(twelve, twelve) == 1.0
    assert average_precision(twelve, twelve, divisor="gold") == pytest.approx(10 / 12)


def test_places_behind_the_depth_do_not_count() -> None:
    late = [*"abcdefghij", "d1"]
    assert average_precision(late, GOLD) == ndcg(late, GOLD) == recall(late, GOLD) == 0.0
    assert recall(late, GOLD, 11) == 0.25


def test_nothing_relevant_is_zero() -> None:
    assert average_precision(["a"], ()) == ndcg(["a"], ()) == recall(["a"], ()) == 0.0


def test_figures_are_those_of_ir_measures() -> None:
    draw = random.Random(3)
    documents = [f"d{number}" for number in range(40)]
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    ranked: dict[str, list[str]] = {}
    for number in range(30):
        query = f"q{number}"
        qrels[query] = dict.fromkeys(draw.sample(documents, draw.randint(1, 20)), 1)
        ranked[query] = draw.sample(documents, draw.randint(1, 30))
        run[query] = {id_: -float(rank) for rank, id_ in enumerate(ranked[query])}
    measures: dict[Any, Callable[[list[str], Collection[str]], float]] = {
        ir_measures.nDCG @ 10: ndcg,
        ir_measures.AP @ 10: partial(average_precision, divisor="gold"),
        ir_measures.R @ 20: partial(recall, depth=20),
    }
    for result in ir_measures.iter_calc(list(measures), qrels, run):
        ours = measures[result.measure](ranked[result.query_id], qrels[result.query_id])
        assert ours == pytest.approx(result.value, abs=1e-9)


@pytest.mark.parametrize(("divisor", "value"), [("capped", 0.541667), ("ten", 0.216667), ("gold", 0.541667)])
def test_average_precision_by_year(divisor: Divisor, value: float) -> None:
    assert average_precision(RANKED, GOLD, divisor=divisor) == pytest.approx(value, abs=5e-7)
