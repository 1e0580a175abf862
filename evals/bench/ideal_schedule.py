"""How long a batch must take on servers that take a fixed time a call, whatever schedules it.

Unit jobs with dependencies on identical machines, by list scheduling: at each step the free machines take
the ready jobs of the highest priority. With the longest remaining path as the priority this is Hu's level
algorithm (1961), exact for in-trees; a case fans out as well, so the better of two tie rules is taken, and
the bound that no schedule can beat stands beside it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence

CALLS_OF_A_CASE: Mapping[str, Sequence[str]] = {
    "classify": (),
    "label": (),
    "reflect-0": ("label",),
    "reflect-1": ("label",),
    "reflect-2": ("label",),
    "answer": ("classify", "reflect-0", "reflect-1", "reflect-2"),
}
"""Each call with those that must end before it: the flagship with three votes in one request."""


def shortest(cases: int, machines: int, calls: Mapping[str, Sequence[str]] = CALLS_OF_A_CASE) -> int:
    """Steps of the better of two list schedules."""
    remaining = _remaining(calls)
    by_level = _steps(cases, machines, calls, lambda case, call: (-remaining[call], case))
    by_case = _steps(cases, machines, calls, lambda case, call: (case, -remaining[call]))
    return min(by_level, by_case)


def bound(cases: int, machines: int, calls: Mapping[str, Sequence[str]] = CALLS_OF_A_CASE) -> int:
    """Steps that no schedule can beat: all machines always busy, and the longest path of a case."""
    return max(math.ceil(cases * len(calls) / machines), max(_remaining(calls).values()))


def _remaining(calls: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Calls on the longest path from each call to the end of its case, itself included."""
    lengths: dict[str, int] = {}
    for call in reversed(list(calls)):
        following = [lengths[later] for later, needed in calls.items() if call in needed]
        lengths[call] = 1 + max(following, default=0)
    return lengths


def _steps(
    cases: int,
    machines: int,
    calls: Mapping[str, Sequence[str]],
    priority: Callable[[int, str], tuple[int, int]],
) -> int:
    missing = {(case, call): len(needed) for case in range(cases) for call, needed in calls.items()}
    following = {call: [later for later, needed in calls.items() if call in needed] for call in calls}
    ready = [(priority(case, call), case, call) for (case, call), number in missing.items() if number == 0]
    heapq.heapify(ready)
    steps = 0
    while ready:
        steps += 1
        taken = [heapq.heappop(ready) for _ in range(min(machines, len(ready)))]
        for _, case, call in taken:
            for later in following[call]:
                missing[case, later] -= 1
                if missing[case, later] == 0:
                    heapq.heappush(ready, (priority(case, later), case, later))
    return steps
