"""The benchmark of Ray: its arithmetic, and itself as small as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench.benchmark import BenchError
from evals.bench.ray import ONE, RAY, Options, Times, result
from tests.evigraph import evigraph

TIMES = {
    ONE: Times(wall=[9.0], processor=[4.0], short=[1.0]),
    RAY: Times(wall=[10.0], processor=[8.0], short=[4.0], start=[(5.0, 3.0)], idle=[0.05]),
}


def test_what_is_done_once_is_not_in_the_cost_of_further_cases() -> None:
    given = result(TIMES, {ONE: 7, RAY: 7}, Options(cases=400))
    assert given.value == pytest.approx(0.9)
    assert given.figures["extra_ms_a_case"] == pytest.approx(1000 * 4 / 400)
    assert given.figures["extra_ms_a_further_case"] == pytest.approx(1000 * (4 - 3) / 300)


def test_sides_that_ask_differently_are_not_compared() -> None:
    with pytest.raises(BenchError, match="2 requests more"):
        result(TIMES, {ONE: 7, RAY: 9}, Options(cases=400))


@pytest.mark.scale
def test_a_ratio_follows_from_its_printed_parts(tmp_path: Path) -> None:
    given = evigraph("bench", "ray", "--tiny", "--json", folder=tmp_path, timeout=900).summary
    parts = given["numerator"]["value"] / given["denominator"]["value"]
    assert given["ratio"] == pytest.approx(parts, rel=0.01)
    assert (given["details"]["first_cases"], given["details"]["cases"]) == (1, 4)
    assert given["details"]["start_processor_seconds"] > 0
