"""Votes and reflections as a first script would ask for them, against a run of ours on the same live server.

The script asks one request at a time. Each vote is a request of its own, held to its schema by the common
`response_format`. Each reflection is one user message that restates the whole labelling prompt, the vote's
labels and the instruction. Our side asks for the same votes and reflections of the same cases.
Every side of every repeat has a cache salt of its own, so neither finds prefixes of the other.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.bench.catalogue import Report
from evals.bench.live import Live, ask, bare_client, fresh_salt, live_model, warm_up
from evals.bench.result import Part, Result
from evals.bench.tap import Body, Sent, elapsed, written_tokens
from evals.bench.workload import demo_recipe, invented_cases, write_cases
from nodes.evidence.label_reply import label_schema
from serving.limits import Limits

Sides = tuple[list[Sent], list[Sent]]


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
    """One case as the script asks it: the body of a vote, and the text of the reflection's instruction."""

    vote: Body
    votes: int
    instruction: str

    def reflection(self, labels: str) -> Body:
        """The restated prompt with a vote's labels."""
        prompt = "\n\n".join(turn["content"] for turn in self.vote["messages"])
        text = f"{prompt}\n\nYour labels:\n{labels}\n\n{self.instruction}"
        return self.vote | {"messages": [{"role": "user", "content": text}]}


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn; their order alternates."""
    name, url = live_model(options.model)
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder:
        limits = Limits(options.max_connections, options.max_connections)
        cases = write_cases(Path(folder), options.cases)
        live = Live(name, url, cases, demo_recipe(stop_after="evidence"), limits)
        return result(asyncio.run(_measure(live, options, Path(folder), report)), options)


async def _measure(live: Live, options: Options, folder: Path, report: Report) -> list[Sides]:
    report("warming up")
    rehearsed = await live.rehearse(folder / "rehearsal")
    schemas = {case.id: label_schema(case.sentence_ids) for case in invented_cases(options.cases)}
    script = restate(rehearsed, schemas)
    formats = [Sent("label", "", one.vote, 0.0) for one in script]
    await warm_up(live.url, [*rehearsed, *formats], connections=8)
    sides: list[Sides] = []
    for repeat in range(options.repeats):
        report(f"repeat {repeat + 1} of {options.repeats}")
        run = folder / f"run-{repeat}"
        if repeat % 2 == 0:
            serial = await ask_serially(live.url, script)
            sides.append((serial, await live.run(run)))
        else:
            ours = await live.run(run)
            sides.append((await ask_serially(live.url, script), ours))
    return sides


def restate(requests: Sequence[Sent], schemas: dict[str, Any]) -> list[Restated]:
    """Each case's votes and reflections in the script's form, from the requests of a run of ours."""
    instructions = {
        one.case_id: one.body["messages"][-1]["content"] for one in requests if one.role == "reflect"
    }
    return [
        Restated(_vote(one.body, schemas[one.case_id]), int(one.body.get("n", 1)), instructions[one.case_id])
        for one in requests
        if one.role == "label"
    ]


def _vote(body: Body, schema: Any) -> Body:
    kept = {name: body[name] for name in ("model", "messages", "temperature", "max_tokens")}
    json_schema = {"name": "labels", "schema": schema, "strict": True}
    return kept | {"response_format": {"type": "json_schema", "json_schema": json_schema}}


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


def result(sides: Sequence[Sides], options: Options) -> Result:
    """The ratio of the two times; each repeat holds the script's requests and ours."""
    serial, ours = [one for one, _ in sides], [other for _, other in sides]
    return Result(
        "naive",
        Part("serial calls with restated prompts", "s", tuple(map(elapsed, serial))),
        Part("batch run, first request to last reply", "s", tuple(map(elapsed, ours))),
        details={
            "model": options.model,
            "cases": options.cases,
            "serial_requests": [len(one) for one in serial],
            "ours_requests": [len(one) for one in ours],
            "serial_tokens_written": [written_tokens(one) for one in serial],
            "ours_tokens_written": [written_tokens(one) for one in ours],
        },
    )
