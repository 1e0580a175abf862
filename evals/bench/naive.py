"""Votes and reflections as a first script would ask for them, against a run of ours on the same live server.

The script sends one request at a time. Each vote is a separate request, with its schema in the common
`response_format`. Each reflection is one user message that restates the whole labelling prompt, the vote's
labels and the instruction. Our side asks for the same votes and reflections of the same cases.
Every side of every repeat has its own cache salt, so neither finds the other's prefixes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.benchmark import Part, Report, Result
from evals.bench.live import (
    Body,
    Live,
    Repeats,
    Sent,
    ask,
    bare_client,
    elapsed,
    fresh_salt,
    live_model,
    warm_up,
    written_tokens,
)
from evals.bench.measuring import scratch_folder, turns
from evals.bench.workload import demo_recipe, invented_cases, write_cases
from nodes.evidence.reply_forms import label_schema
from serving.protocol.limits import Limits


@dataclass(frozen=True, slots=True)
class Options:
    """The live model, cases, repeats, and the connections of our side; None is the default of a run."""

    model: str
    cases: int = 8
    repeats: int = 1
    max_connections: int | None = None


TINY = {"cases": 1}


@dataclass(frozen=True, slots=True)
class Restated:
    """One case as the script asks it: the body of a vote, and the instruction of the reflection."""

    vote: Body
    votes: int
    instruction: str

    def reflection(self, labels: str) -> Body:
        prompt = "\n\n".join(turn["content"] for turn in self.vote["messages"])
        text = f"{prompt}\n\nYour labels:\n{labels}\n\n{self.instruction}"
        return self.vote | {"messages": [{"role": "user", "content": text}]}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn."""
    name, url = live_model(options.model)
    with scratch_folder() as folder:
        limits = Limits(options.max_connections, options.max_connections)
        cases = write_cases(folder, options.cases)
        live = Live(name, url, cases, demo_recipe(stop_after="evidence"), limits)
        return result(*asyncio.run(_measure(live, options, folder, report)))


async def _measure(live: Live, options: Options, folder: Path, report: Report) -> tuple[Repeats, Repeats]:
    report("warming up")
    recorded = await live.run(folder / "dry-run", sends=False)
    schemas = {case.id: label_schema(case.sentence_ids) for case in invented_cases(options.cases)}
    script = restate(recorded, schemas)
    formats = [Sent("label", "", one.vote, 0.0) for one in script]
    await warm_up(live.url, [*recorded, *formats], connections=8)
    serial: Repeats = []
    ours: Repeats = []
    for repeat, side in turns((serial, ours), options.repeats, report):
        if side is serial:
            serial.append(await ask_serially(live.url, script))
        else:
            ours.append(await live.run(folder / f"run-{repeat}"))
    return serial, ours


def restate(requests: Sequence[Sent], schemas: dict[str, Any]) -> list[Restated]:
    """Each case's votes and reflections in the script's form, from the requests of a run of ours."""
    instructions = {
        one.case_id: one.body["messages"][-1]["content"] for one in requests if one.role == "reflect"
    }
    found = []
    for one in requests:
        if one.role == "label":
            kept = {name: one.body[name] for name in ("model", "messages", "temperature", "max_tokens")}
            json_schema = {"name": "labels", "schema": schemas[one.case_id], "strict": True}
            vote = kept | {"response_format": {"type": "json_schema", "json_schema": json_schema}}
            found.append(Restated(vote, int(one.body.get("n", 1)), instructions[one.case_id]))
    return found


async def ask_serially(url: str, script: Sequence[Restated]) -> list[Sent]:
    """One request after the other, with cold caches."""
    salt = fresh_salt()
    sent: list[Sent] = []
    async with bare_client(1) as session:
        for case in script:
            replies = [await ask(session, url, case.vote | salt, sent) for _ in range(case.votes)]
            for reply in replies:
                labels = reply["choices"][0]["message"]["content"] or ""
                await ask(session, url, case.reflection(labels) | salt, sent)
    return sent


def result(serial: Repeats, ours: Repeats) -> Result:
    """The ratio of the two times, from the requests of the script and ours in each repeat."""
    return Result(
        "naive",
        Part("serial calls with restated prompts", "s", tuple(map(elapsed, serial))),
        Part("batch run, first request to last reply", "s", tuple(map(elapsed, ours))),
        details={
            "serial_requests": [len(one) for one in serial],
            "ours_requests": [len(one) for one in ours],
            "serial_tokens_written": [written_tokens(one) for one in serial],
            "ours_tokens_written": [written_tokens(one) for one in ours],
        },
    )
