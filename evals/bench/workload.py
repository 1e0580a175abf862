"""What the benchmarks run: invented cases, a recipe, and a batch from its first case to its last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from cases.plain_jsonl import write_jsonl
from cases.records import Case, Gold
from evals.bench.result import BenchError
from graph.recipe import Recipe, load_recipe, make_recipe
from runs.assemble import Assembly, Request, assemble, sample_cases
from runs.batch import Options, run_batch
from runs.folder import RunWriter
from runs.manifest import Manifest
from runs.servers import Servers
from runs.watcher import Progress, Watcher
from serving.limits import Limits
from serving.model_name import ROLES, ModelName

SIX_CALLS: dict[str, Any] = {
    "system": "tamu",
    "embedding": "lexical:256",
    "evidence": {"demonstrations": 1, "votes": 3, "threshold": 2},
    "answer": {"demonstrations": 1},
}
"""Intent, three votes in one request, three reflections, answer: six requests and eight samples a case."""


class Silent:
    """A watcher that tells nobody."""

    def remark(self, text: str) -> None:
        """Not shown."""

    def update(self, progress: Progress) -> None:
        """Not shown."""


def invented_cases(number: int) -> list[Case]:
    """The packaged cases without their keys; beyond their number again, each with a text of its own."""
    return list(islice(_endless(), number))


def _endless() -> Iterator[Case]:
    samples = [
        case for name in ("batch.xml", "pool.xml") for case in sample_cases(name) if isinstance(case, Case)
    ]
    for letter in count(1):
        for case in samples:
            bare = replace(case, gold=Gold())
            # The difference stands first in the text, so that no prefix cache knows a repeated case.
            yield bare if letter == 1 else _repeated(bare, letter)


def _repeated(case: Case, letter: int) -> Case:
    return replace(case, id=f"{case.id}-{letter}", narrative=f"Letter {letter}. {case.narrative}")


def write_cases(folder: Path, number: int) -> Path:
    """Invented cases as a file."""
    path = folder / f"cases-{number}.jsonl"
    write_jsonl(path, invented_cases(number))
    return path


def six_calls() -> Recipe:
    """The recipe with six requests a case."""
    return make_recipe(SIX_CALLS, "of the benchmark")


def demo_recipe(**fields: Any) -> Recipe:
    """The packaged recipe `demo` on lexical embeddings, which cost next to nothing, with further fields."""
    return load_recipe("demo").model_copy(update={"embedding": "lexical:256", **fields})


async def ready(recipe: Recipe, cases: Path, model: ModelName) -> Assembly:
    """Everything that a run does before its first case: reading, connecting, probing."""
    request = Request(recipe, "benchmark", (cases,), (), dict.fromkeys(ROLES, model))
    with Servers(Silent().remark) as servers:
        return await assemble(request, Silent().remark, servers)


async def run_cases(
    assembly: Assembly,
    folder: Path,
    limits: Limits,
    watcher: Watcher | None = None,
    writer: type[RunWriter] = RunWriter,
) -> Manifest:
    """A whole batch, from its first case on, with journal, trace and run folder.

    Raises:
        BenchError: Not all cases were done; the figures would be those of another workload.
    """
    with writer.create(folder, assembly.manifest) as run:
        status = await run_batch(
            run,
            assembly,
            Options("bench", limits=limits),
            skipped=(),
            stop=asyncio.Event(),
            watcher=watcher or Silent(),
        )
        manifest = run.manifest
    counts = manifest.counts
    if status != "finished" or counts.failed or counts.done != manifest.inputs.cases:
        errors = ", ".join(f"{number} {name}" for name, number in counts.errors.items()) or status
        raise BenchError(f"{counts.done} of {manifest.inputs.cases} cases were done ({errors})")
    return manifest
