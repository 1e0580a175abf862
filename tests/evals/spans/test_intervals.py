"""Where calls are placed within their node, which only knows how long they took."""

from __future__ import annotations

from typing import Any

import pytest

from evals.spans.of_run import call_intervals, nanoseconds

SECOND = nanoseconds(1)
NODE = (10 * SECOND, 15 * SECOND)


def call(seconds: float, sample: int = 0, *, replayed: bool = False) -> dict[str, Any]:
    return {"role": "label", "sample": sample, "seconds": seconds, "replayed": replayed}


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([call(2)], [(13, 15)]),
        ([call(1), call(2)], [(12, 13), (13, 15)]),
        ([call(3, 0), call(3, 1), call(1, 1)], [(12, 15), (11, 14), (14, 15)]),
        ([call(9)], [(10, 15)]),
        ([call(3, replayed=True)], [(15, 15)]),
    ],
    ids=["ends with its node", "correction", "samples", "not before its node", "replayed"],
)
def test_calls_end_with_their_node(calls: list[dict[str, Any]], wanted: list[tuple[float, float]]) -> None:
    assert [(begin / SECOND, end / SECOND) for begin, end in call_intervals(calls, NODE)] == wanted
