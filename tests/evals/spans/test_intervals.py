from __future__ import annotations

from typing import Any

from evals.spans.of_run import call_intervals, nanoseconds

SECOND = nanoseconds(1)
NODE = (10 * SECOND, 15 * SECOND)


def call(seconds: float, sample: int = 0, *, replayed: bool = False) -> dict[str, Any]:
    return {"role": "label", "sample": sample, "seconds": seconds, "replayed": replayed}


def in_seconds(*calls: dict[str, Any]) -> list[tuple[float, float]]:
    return [(begin / SECOND, end / SECOND) for begin, end in call_intervals(calls, NODE)]


def test_a_call_ends_with_its_node() -> None:
    assert in_seconds(call(2)) == [(13, 15)]


def test_a_correction_follows_the_reply_that_it_corrects() -> None:
    assert in_seconds(call(1), call(2)) == [(12, 13), (13, 15)]


def test_samples_stand_side_by_side() -> None:
    assert in_seconds(call(3, 0), call(3, 1), call(1, 1)) == [(12, 15), (11, 14), (14, 15)]


def test_a_call_does_not_begin_before_its_node() -> None:
    assert in_seconds(call(9)) == [(10, 15)]


def test_a_replayed_call_takes_no_time() -> None:
    assert in_seconds(call(3, replayed=True)) == [(15, 15)]
