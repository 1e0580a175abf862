"""Whether a run keeps a live server as busy as a client that only sends requests.

A batch run is timed from its first request to its last reply. Then a bare client sends exactly its requests
again, in their order and with as many at once: that is the least time that the server needs for them.
Every side of every repeat has its own cache salt, so neither finds the other's prefixes. Replies are
sampled, so the two sides write a few tokens more or less; the ratio for each written token is given too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from evals.bench.benchmark import Part, Report, Result
from evals.bench.live import Live, Repeats, elapsed, live_model, read_tokens, replay, warm_up, written_tokens
from evals.bench.measuring import scratch_folder, turns
from evals.bench.workload import demo_recipe, write_cases
from serving.protocol.limits import Limits


@dataclass(frozen=True, slots=True)
class Options:
    """The live model, cases of a run, concurrent requests of either side, repeats."""

    model: str
    cases: int = 40
    max_connections: int = 8
    repeats: int = 2


TINY = {"cases": 1, "max_connections": 2, "repeats": 2}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn. Where the replay comes first, it sends the requests of the repeat before."""
    name, url = live_model(options.model)
    with scratch_folder() as folder:
        limits = Limits(options.max_connections, options.max_connections)
        cases = write_cases(folder, options.cases)
        live = Live(name, url, cases, demo_recipe(), limits)
        return result(*asyncio.run(_measure(live, options, folder, report)))


async def _measure(live: Live, options: Options, folder: Path, report: Report) -> tuple[Repeats, Repeats]:
    report("warming up")
    connections = options.max_connections
    recorded = await live.run(folder / "dry-run", sends=False)
    await warm_up(live.url, recorded, connections)
    ours: Repeats = []
    replayed: Repeats = []
    for repeat, side in turns((ours, replayed), options.repeats, report):
        if side is ours:
            ours.append(await live.run(folder / f"run-{repeat}"))
        else:
            replayed.append(await replay(live.url, ours[-1], connections))
    return ours, replayed


def result(ours: Repeats, replayed: Repeats) -> Result:
    """The ratio of the two times, from our requests and the replayed ones in each repeat."""
    return Result(
        "saturation",
        Part("batch run, first request to last reply", "s", tuple(map(elapsed, ours))),
        Part("bare replay of its requests", "s", tuple(map(elapsed, replayed))),
        details={
            "requests": [len(one) for one in ours],
            "ours_tokens_read": [read_tokens(one) for one in ours],
            "ours_tokens_written": [written_tokens(one) for one in ours],
            "replay_tokens_written": [written_tokens(one) for one in replayed],
            "ratio_for_each_written_token": round(_a_token(ours) / _a_token(replayed), 4),
        },
    )


def _a_token(repeats: Repeats) -> float:
    return sum(map(elapsed, repeats)) / sum(map(written_tokens, repeats))
