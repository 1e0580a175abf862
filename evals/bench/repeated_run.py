"""A large finished run, made of a small real one whose cases are repeated under new ids."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from cases.load import find_cases
from cases.plain_jsonl import write_jsonl
from cases.records import Case
from evals.bench.workload import ready, run_cases
from graph.recipe import load_recipe, override
from nodes.evidence.aggregate_votes import select
from runs.assemble import sample_cases
from runs.folder import Line, RunFolder, RunWriter
from serving.limits import Limits
from serving.model_name import parse_model_name

_MODEL = "scripted:auto"


def repeated_cases(number: int) -> list[Case]:
    """The packaged cases with their keys; beyond their number again, under new ids."""
    return list(islice(_endless(), number))


def _endless() -> Iterator[Case]:
    samples = [
        case for name in ("batch.xml", "pool.xml") for case in sample_cases(name) if isinstance(case, Case)
    ]
    for letter in count(1):
        for case in samples:
            yield case if letter == 1 else replace(case, id=f"{case.id}-{letter}")


async def small_run(folder: Path) -> RunFolder:
    """A scripted run of the packaged cases with five votes and reflections."""
    path = folder / "small.jsonl"
    write_jsonl(
        path,
        [case for name in ("batch.xml", "pool.xml") for case in sample_cases(name) if isinstance(case, Case)],
    )
    recipe = override(load_recipe("tamu"), {"embedding": "lexical:256"}, "tamu")
    assembly = await ready(recipe, path, parse_model_name(_MODEL))
    await run_cases(assembly, folder / "small", Limits())
    return RunFolder(folder / "small")


def repeat_run(small: RunFolder, cases: Path, number: int, folder: Path, seed: int) -> RunFolder:
    """A run folder with `number` cases, each a repeated one with votes drawn anew.

    Args:
        small: The run that lines are taken from.
        cases: The file of `repeated_cases(number)`.
        number: How many.
        folder: The new run's.
        seed: Of the votes.
    """
    lines = {line["case_id"]: line for line in small.cases()}
    traces = dict(small.passes())
    source = find_cases([cases])
    inputs = small.manifest.inputs.model_copy(
        update={"paths": [str(cases.resolve())], "cases": number, "sha256": source.digest()}
    )
    counts = small.manifest.counts.model_copy(update={"done": number})
    manifest = small.manifest.model_copy(update={"inputs": inputs, "counts": counts})
    draw = random.Random(seed)  # noqa: S311 - no secret
    with RunWriter.create(folder, manifest) as writer:
        for case in islice(_endless(), number):
            origin = case.id.partition("-")[0]
            line = _with_new_votes({**lines[origin], "case_id": case.id}, draw)
            writer.append(line, [{**step, "case_id": case.id} for step in traces[origin]])
    return RunFolder(folder)


def _with_new_votes(line: Line, draw: random.Random) -> Line:
    votes = line["usable_votes"]
    counts: dict[str, Any] = {id_: draw.randint(0, votes) for id_ in line["vote_counts"]}
    essential = select(counts, (votes + 1) // 2)
    return {
        **line,
        "vote_counts": counts,
        "labels": {id_: "essential" if id_ in essential else "not-essential" for id_ in counts},
        "evidence": {
            "threshold": essential,
            "high_recall": select(counts, 1),
            "low_recall": select(counts, votes - 1),
        },
        # Repeated words of the note: an answer of the usual length for the text metrics.
        "answer": " ".join(draw.choices(_WORDS, k=75)),
    }


_WORDS = sorted(
    {
        word
        for case in sample_cases("batch.xml")
        if isinstance(case, Case)
        for sentence in case.sentences
        for word in sentence.text.split()
    }
)
