from __future__ import annotations

import pytest

from evals.bench.latency import bound, shortest


@pytest.mark.parametrize(
    ("cases", "machines", "steps"),
    [
        (1, 1, 6),
        (1, 100, 3),  # label beside classify, reflections, answer
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
