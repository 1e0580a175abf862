"""Results of benchmarks from what was measured."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from evals.bench.benchmark import BENCHMARKS, BenchError, Part, Result, load, run
from evals.bench.latency import Options as LatencyOptions
from evals.bench.latency import bound, shortest
from evals.bench.latency import result as latency_result
from evals.bench.live import Sent
from evals.bench.measuring import Times
from evals.bench.memory import Options as MemoryOptions
from evals.bench.memory import result as memory_result
from evals.bench.naive import result as naive_result
from evals.bench.overhead import result as overhead_result
from evals.bench.saturation import result as saturation_result

LIGHT = [name for name in BENCHMARKS if name != "fusion"]


def sent(*times: tuple[float, float], tokens: int = 10) -> list[Sent]:
    usage = {"completion_tokens": tokens, "prompt_tokens": 100}
    return [Sent("label", "1", {}, started, ended, usage) for started, ended in times]


def silent(text: str) -> None:
    pass


def test_a_ratio_is_of_the_means_and_its_spread_of_the_repeats() -> None:
    given = Result("x", Part("a", "s", (1.0, 3.0)), Part("b", "s", (1.0, 1.0))).as_json()
    assert given["ratio"] == 2.0
    assert given["spread"] == {"min": 1.0, "max": 3.0}
    assert given["count"] == 2
    assert given["numerator"] == {"name": "a", "unit": "s", "value": 2.0}


def test_overhead_divides_processor_times_by_requests() -> None:
    ours, bare = Times([0.6, 0.4], [1.0, 1.0]), Times([0.25, 0.25], [0.5, 0.5])
    given = overhead_result(ours, bare, 100, 200)
    assert given.numerator.values == (6.0, 4.0)
    assert given.value == pytest.approx(2.0)
    assert given.details["ours_ms_a_sample"] == pytest.approx(2.5)
    assert given.details["calls_per_second"] == 100


def test_latency_is_the_ideal_over_the_achieved_time() -> None:
    given = latency_result([40.0], 1200, LatencyOptions())
    assert given.numerator.value == 19.0
    assert given.value == pytest.approx(19 / 40)


def test_latency_refuses_a_run_of_other_calls() -> None:
    with pytest.raises(BenchError, match="1199 requests"):
        latency_result([40.0], 1199, LatencyOptions())


def test_saturation_divides_times_from_the_first_request_to_the_last_reply() -> None:
    ours, replayed = sent((1.0, 3.0), (2.0, 7.0), tokens=20), sent((0.0, 4.0), tokens=20)
    given = saturation_result([ours], [replayed])
    assert given.value == pytest.approx(6 / 4)
    assert given.details["ratio_for_each_written_token"] == pytest.approx((6 / 40) / (4 / 20))


def test_naive_divides_the_serial_time_by_ours() -> None:
    given = naive_result([sent((0.0, 12.0))], [sent((0.0, 3.0))])
    assert given.value == pytest.approx(4)


def test_memory_growth_is_the_difference_of_two_readings() -> None:
    readings = [
        {"cases": cases, "mb": mb, "seconds": 1.0}
        for cases, mb in ((500, 100.0), (9000, 300.0), (10_000, 107.5))
    ]
    given = memory_result(readings, MemoryOptions()).as_json()
    assert given["growth_mb"] == 7.5
    assert "ratio" not in given


@pytest.mark.parametrize("name", LIGHT)
def test_tiny_values_are_options(name: str) -> None:
    benchmark = load(name)
    assert set(benchmark.TINY) <= {field.name for field in fields(benchmark.Options)}


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        ("memori", {}, "no benchmark 'memori'; did you mean 'memory'?"),
        ("memory", {"seconds": 1.0}, "bench memory takes no --seconds; its options: --cases"),
        ("naive", {}, "bench naive needs --model"),
        ("memory", {"cases": 100}, "--cases must be above 500"),
        ("naive", {"model": "scripted:auto"}, "this benchmark needs one vLLM server"),
    ],
)
def test_wrong_use_is_one_line_with_a_remedy(name: str, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(BenchError) as caught:
        run(name, given, tiny=False, report=silent)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("cases", "machines", "steps"),
    [
        (1, 1, 6),
        (1, 100, 3),  # label and classify at once, reflections, answer
        (1, 2, 4),  # one reflection waits
        (200, 64, 19),
        (200, 1, 1200),
    ],
)
def test_steps(cases: int, machines: int, steps: int) -> None:
    assert shortest(cases, machines) == steps


@pytest.mark.parametrize("machines", [1, 3, 7, 64])
def test_no_schedule_beats_the_bound(machines: int) -> None:
    assert all(shortest(cases, machines) >= bound(cases, machines) for cases in range(1, 40))


def test_the_bound_is_the_longest_path_where_machines_abound() -> None:
    assert bound(3, 1000) == 3


def test_a_chain_takes_its_length() -> None:
    assert shortest(5, 100, {"a": (), "b": ("a",), "c": ("b",)}) == 3
