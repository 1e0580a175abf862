"""Workload of the benchmarks: invented cases, a recipe, a server that answers at once, and a whole batch."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from cases.formats.plain_jsonl import write_jsonl
from cases.load import packaged_cases
from cases.records import Case, Gold
from cases.selection import EVERYTHING, Selection
from cases.texts import plural
from evals.bench.benchmark import BenchError
from evals.bench.instant_server import MODEL
from graph.recipe import Recipe, load_recipe, make_recipe
from runs.execute.assemble import Assembly, Request, assemble
from runs.execute.batch import Options, run_batch
from runs.execute.rounds import BatchOptions
from runs.execute.servers import Servers
from runs.execute.watcher import SilentWatcher, Watcher
from runs.on_ray.cases import RayCases
from runs.record.folder import RunWriter
from runs.record.manifest import Manifest
from serving.protocol.limits import Limits
from serving.protocol.model_name import ROLES, ModelName, parse_model_name

SIX_CALLS: dict[str, Any] = {
    "system": "tamu",
    "embedding": "lexical:256",
    "evidence": {"demonstrations": 1, "votes": 3, "threshold": 2},
    "answer": {"demonstrations": 1},
}
"""Intent, three votes in one request, three reflections, answer: six requests and eight samples a case."""


def repeated_cases(number: int | None = None) -> list[Case]:
    """The packaged cases with their keys; beyond their number again, under ids that end in `-2`, `-3`, ..."""
    samples = [
        case for name in ("batch.xml", "pool.xml") for case in packaged_cases(name) if isinstance(case, Case)
    ]
    wanted = len(samples) if number is None else number
    copies = [(samples[place % len(samples)], 1 + place // len(samples)) for place in range(wanted)]
    return [case if copy == 1 else replace(case, id=f"{case.id}-{copy}") for case, copy in copies]


def invented_cases(number: int) -> list[Case]:
    """The packaged cases without their keys; repeated beyond their number, each with distinct text."""
    made = []
    for case in repeated_cases(number):
        _, _, copy = case.id.partition("-")
        # The difference comes first in the text, so that no prefix cache knows a repeated case.
        narrative = f"Letter {copy}. {case.narrative}" if copy else case.narrative
        made.append(replace(case, narrative=narrative, gold=Gold()))
    return made


def write_cases(folder: Path, number: int) -> Path:
    """Invented cases as a file."""
    path = folder / f"cases-{number}.jsonl"
    write_jsonl(path, invented_cases(number))
    return path


def six_calls() -> Recipe:
    """The recipe with six requests a case."""
    return make_recipe(SIX_CALLS, "of the benchmark")


def demo_recipe(**fields: Any) -> Recipe:
    """The packaged recipe `demo` with lexical embeddings, which cost almost nothing, and further fields."""
    return load_recipe("demo").model_copy(update={"embedding": "lexical:256", **fields})


async def ready(recipe: Recipe, cases: Path, model: ModelName, selection: Selection = EVERYTHING) -> Assembly:
    """Do all that a run does before its first case: reading, connecting, probing."""
    models = dict.fromkeys(ROLES, model)
    request = Request(recipe, "benchmark", (cases,), (), models, selection=selection)
    with Servers(SilentWatcher().notify) as servers:
        return await assemble(request, SilentWatcher().notify, servers)


async def run_cases(
    assembly: Assembly,
    folder: Path,
    limits: Limits,
    watcher: Watcher | None = None,
    writer: type[RunWriter] = RunWriter,
    cluster: RayCases | None = None,
    batches: BatchOptions | None = None,
) -> Manifest:
    """Run a whole batch, from its first case on, with journal, trace and run folder.

    Raises:
        BenchError: Not all cases were done, so figures would be those of another workload.
    """
    with writer.create(folder, assembly.manifest) as run:
        status = await run_batch(
            run,
            assembly,
            Options("bench", limits=limits, batches=batches or BatchOptions()),
            skipped=(),
            stop=asyncio.Event(),
            watcher=watcher or SilentWatcher(),
            cluster=cluster,
        )
        manifest = run.manifest
    counts = manifest.counts
    if status != "finished" or counts.failed or counts.done != manifest.inputs.cases:
        errors = ", ".join(f"{number} {name}" for name, number in counts.errors.items()) or status
        raise BenchError(f"{counts.done} of {plural(manifest.inputs.cases, 'case')} were done ({errors})")
    return manifest


@dataclass(frozen=True, slots=True)
class ChildServer:
    """A running instant server, and its process."""

    port: int
    process: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def model(self) -> ModelName:
        return parse_model_name(f"vllm:{MODEL}@{self.url}")

    def requests(self) -> int:
        answer = httpx.get(f"http://127.0.0.1:{self.port}/requests", timeout=10, trust_env=False)
        return int(answer.json()["requests"])


@contextmanager
def instant_server(seconds: float = 0.0) -> Iterator[ChildServer]:
    """Run the instant server in a separate process, so that its processor time is not the client's.

    Raises:
        BenchError: It does not start.
    """
    # No package of the current folder is imported instead of ours.
    command = [sys.executable, "-P", "-m", "evals.bench.instant_server", "--until-input-ends"]
    child = subprocess.Popen(  # noqa: S603 - this interpreter, this package, one number
        [*command, "--seconds", str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        port = child.stdout.readline().strip()
        if not port:
            raise BenchError("the benchmark's server did not start")
        yield ChildServer(int(port), child.pid)
    finally:
        child.stdin.close()
        try:
            child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
