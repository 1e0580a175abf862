"""How long it takes to score, compare, analyse, calibrate and export a large finished run.

The commands run as a user runs them, each in a separate process. The other side reads the same lines and
does nothing with them, so the ratio shows what evaluation costs beyond reading. The run is made of a small
real one, whose cases are repeated under new ids.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases.formats.plain_jsonl import write_jsonl
from cases.load import find_cases, packaged_cases
from cases.records import Case
from cases.texts import plural
from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import run_child, scratch_folder
from evals.bench.workload import ready, repeated_cases, run_cases
from graph.recipe import load_recipe, override
from nodes.evidence.aggregate_votes import select
from runs.record.folder import Line, RunFolder, RunWriter
from serving.protocol.limits import Limits
from serving.protocol.model_name import parse_model_name

_READ = """
import sys
from pathlib import Path
from cases.load import find_cases
from runs.record.folder import RunFolder
run = RunFolder(Path(sys.argv[1]))
files = find_cases(run.manifest.inputs.case_files)
print(sum(1 for _ in run.cases()), sum(1 for _ in files))
"""


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of the run."""

    cases: int = 10_000


TINY = {"cases": 40}


def measure(options: Options, report: Report) -> Result:
    """Make two runs and time the commands on them.

    Raises:
        BenchError: A command failed.
    """
    with scratch_folder() as folder:
        report(f"making two runs of {plural(options.cases, 'case')}")
        cases = folder / "cases.jsonl"
        write_jsonl(cases, repeated_cases(options.cases))
        small = asyncio.run(small_run(folder))
        first, second = (
            str(repeat_run(small, cases, options.cases, folder / f"run-{seed}", seed).path) for seed in (1, 2)
        )
        commands = {
            "read": ["-c", _READ, first],
            "score": _evigraph("score", first),
            "compare": _evigraph("compare", first, second),
            "analyse": _evigraph("analyse", first),
            "calibrate": _evigraph("calibrate", first),
            "export": _evigraph("export", first, "--out", str(folder / "frames")),
        }
        seconds = {}
        for name, arguments in commands.items():
            seconds[name] = run_child(name, *arguments).seconds
            report(f"{name}: {seconds[name]:.1f} s")
    return Result(
        "evaluation",
        Part("score: evidence and answers", "s", (seconds["score"],)),
        Part("reading the run and its cases", "s", (seconds["read"],)),
        details={f"{name}_seconds": round(s, 2) for name, s in seconds.items()},
    )


def _evigraph(*arguments: str) -> list[str]:
    return ["-c", "from cli.main import main; main()", *arguments, "--json"]


async def small_run(folder: Path) -> RunFolder:
    """A scripted run of the packaged cases with five votes and reflections."""
    path = folder / "small.jsonl"
    write_jsonl(path, repeated_cases())
    recipe = override(load_recipe("tamu"), {"embedding": "lexical:256"}, "tamu")
    assembly = await ready(recipe, path, parse_model_name("scripted:auto"))
    await run_cases(assembly, folder / "small", Limits())
    return RunFolder(folder / "small")


def repeat_run(small: RunFolder, cases: Path, number: int, folder: Path, seed: int) -> RunFolder:
    """Make a run of `number` cases, each a repeated one with votes drawn again."""
    lines = {line["case_id"]: line for line in small.cases()}
    traces = dict(small.passes())
    source = find_cases([cases])
    inputs = small.manifest.inputs.model_copy(
        update={"paths": [str(cases.resolve())], "cases": number, "sha256": source.digest()}
    )
    counts = small.manifest.counts.model_copy(update={"done": number})
    manifest = small.manifest.model_copy(update={"inputs": inputs, "counts": counts})
    draw = random.Random(seed)  # noqa: S311 - no secret
    samples = [case for case in packaged_cases("batch.xml") if isinstance(case, Case)]
    texts = (sentence.text for case in samples for sentence in case.sentences)
    words = sorted({word for text in texts for word in text.split()})
    with RunWriter.create(folder, manifest) as writer:
        for case in repeated_cases(number):
            origin = case.id.partition("-")[0]
            line = _with_new_votes({**lines[origin], "case_id": case.id}, words, draw)
            writer.append(line, [{**step, "case_id": case.id} for step in traces[origin]])
    return RunFolder(folder)


def _with_new_votes(line: Line, words: Sequence[str], draw: random.Random) -> Line:
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
        # Words of notes: an answer of the usual length for the text metrics.
        "answer": " ".join(draw.choices(words, k=75)),
    }
