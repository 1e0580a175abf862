"""Measures of rankings: by hand, and against ir_measures."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import ir_measures
import pytest

from ranking.rank_measures import average_precision, ndcg, recall

GOLD = ("d1", "d2", "d3", "d4")


def test_average_precision_divides_by_what_could_be_found() -> None:
    assert average_precision(["d1", "x", "d2", "y", "z", "d3"], GOLD) == pytest.approx(2.1666667 / 4)
    twelve = [f"g{number}" for number in range(12)]
    assert average_precision(twelve[:10], twelve) == 1.0


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
        qrels[query] = dict.fromkeys(draw.sample(documents, draw.randint(1, 9)), 1)
        ranked[query] = draw.sample(documents, draw.randint(1, 30))
        run[query] = {id_: -float(rank) for rank, id_ in enumerate(ranked[query])}
    measures: dict[Any, Callable[[list[str], Collection[str]], float]] = {
        ir_measures.nDCG @ 10: ndcg,
        ir_measures.AP @ 10: average_precision,
        ir_measures.R @ 20: lambda ids, gold: recall(ids, gold, 20),
    }
    for result in ir_measures.iter_calc(list(measures), qrels, run):
        ours = measures[result.measure](ranked[result.query_id], qrels[result.query_id])
        assert ours == pytest.approx(result.value, abs=1e-9)
