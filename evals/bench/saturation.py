"""Whether a run keeps a live server as busy as a client that has nothing to think about.

A batch run is timed from its first request sent to its last reply. Then exactly its requests, in their order,
are sent again by a bare client with as many at once: that is the least time that the server needs for them.
Every side of every repeat has a cache salt of its own, so neither finds prefixes of the other. Replies are
sampled, so the two sides write a few tokens more or less; the ratio for each written token is given too.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.catalogue import Report
from evals.bench.live import Live, live_model, replay, warm_up
from evals.bench.result import Part, Result
from evals.bench.tap import Sent, elapsed, read_tokens, written_tokens
from evals.bench.workload import demo_recipe, write_cases
from serving.limits import Limits

Sides = tuple[list[Sent], list[Sent]]


@dataclass(frozen=True, slots=True)
class Options:
    """The live model, cases of a run, requests under way at once on either side, repeats."""

    model: str
    cases: int = 40
    max_connections: int = 8
    repeats: int = 2


TINY = {"cases": 1, "max_connections": 2, "repeats": 2}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn; their order alternates.

    Where the replay comes first, it sends the requests of the repeat before.
    """
    name, url = live_model(options.model)
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder:
        limits = Limits(options.max_connections, options.max_connections)
        cases = write_cases(Path(folder), options.cases)
        live = Live(name, url, cases, demo_recipe(), limits)
        sides = asyncio.run(_measure(live, options, Path(folder), report))
    return result(sides, options)


async def _measure(live: Live, options: Options, folder: Path, report: Report) -> list[Sides]:
    report("warming up")
    connections = options.max_connections
    await warm_up(live.url, await live.rehearse(folder / "rehearsal"), connections)
    sides: list[Sides] = []
    for repeat in range(options.repeats):
        report(f"repeat {repeat + 1} of {options.repeats}")
        run = folder / f"run-{repeat}"
        if repeat % 2 == 0:
            ours = await live.run(run)
            sides.append((ours, await replay(live.url, ours, connections)))
        else:
            replayed = await replay(live.url, sides[-1][0], connections)
            sides.append((await live.run(run), replayed))
    return sides


def result(sides: Sequence[Sides], options: Options) -> Result:
    """The ratio of the two times; each repeat holds our requests and the replayed ones."""
    ours, replayed = [one for one, _ in sides], [other for _, other in sides]
    details: dict[str, Any] = {
        "model": options.model,
        "cases": options.cases,
        "max_connections": options.max_connections,
        "requests": [len(one) for one in ours],
        "ours_tokens_read": [read_tokens(one) for one in ours],
        "ours_tokens_written": [written_tokens(one) for one in ours],
        "replay_tokens_written": [written_tokens(one) for one in replayed],
        "ratio_for_each_written_token": round(_a_token(ours) / _a_token(replayed), 4),
    }
    return Result(
        "saturation",
        Part("batch run, first request to last reply", "s", tuple(map(elapsed, ours))),
        Part("bare replay of its requests", "s", tuple(map(elapsed, replayed))),
        details=details,
    )


def _a_token(repeats: Sequence[list[Sent]]) -> float:
    return sum(map(elapsed, repeats)) / sum(map(written_tokens, repeats))
