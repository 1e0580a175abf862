"""What the trace of a run costs: processor time, and bytes for each byte of text that it holds.

Time: a scripted batch against the same batch without a trace; cases, calls and journal are the same. Size:
trace and call journal of a run over the distinct messages and replies in them, and what a case takes in a run
of twice the cases over what it takes in this one.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from cases.plain_jsonl import write_jsonl
from cases.records import Case
from evals.bench.catalogue import Report
from evals.bench.overhead import Side
from evals.bench.result import Part, Result
from evals.bench.untraced import UntracedWriter, untraced
from evals.bench.workload import invented_cases, ready, run_cases, six_calls
from runs.folder import CALLS, RunWriter
from serving.journal import Journal
from serving.limits import Limits
from serving.model_name import parse_model_name


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of a run, and repeats of both sides."""

    cases: int = 200
    repeats: int = 5


TINY = {"cases": 2, "repeats": 2}


@dataclass(frozen=True, slots=True)
class Stored:
    """What a run takes on disk, in bytes; `text` is of its distinct messages and replies, as UTF-8."""

    cases: int
    trace: int
    journal: int
    text: int

    @property
    def over_text(self) -> float:
        """Bytes on disk for each byte of text."""
        return (self.trace + self.journal) / self.text

    @property
    def a_case(self) -> float:
        """Bytes on disk for each case."""
        return (self.trace + self.journal) / self.cases


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn, their order alternating; then a run of twice the cases."""
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as folder:
        return asyncio.run(_measure(options, Path(folder), report))


async def _measure(options: Options, folder: Path, report: Report) -> Result:
    cases = folder / "cases.jsonl"
    write_jsonl(cases, varied_cases(options.cases))
    report("warming up")
    await _run(cases, folder / "warm-up", traced=True)
    await _run(cases, folder / "warm-up-untraced", traced=False)
    with_trace, without = Side(), Side()
    for repeat in range(options.repeats):
        report(f"repeat {repeat + 1} of {options.repeats}")
        sides = [(with_trace, True), (without, False)]
        for side, traced in reversed(sides) if repeat % 2 else sides:
            await _run(cases, folder / f"run-{repeat}-{traced}", traced=traced, side=side)
    report(f"a run of {2 * options.cases} cases")
    twice = folder / "twice.jsonl"
    write_jsonl(twice, varied_cases(2 * options.cases))
    await _run(twice, folder / "twice", traced=True)
    once = stored(folder / "warm-up", options.cases)
    return result(with_trace.processor, without.processor, once, stored(folder / "twice", 2 * options.cases))


def varied_cases(number: int) -> list[Case]:
    """Invented cases, the ids of case and sentence before each sentence, so that no two notes share one."""
    return [
        replace(
            case,
            sentences=tuple(
                replace(sentence, text=f"[{case.id}.{sentence.id}] {sentence.text}")
                for sentence in case.sentences
            ),
        )
        for case in invented_cases(number)
    ]


async def _run(cases: Path, folder: Path, *, traced: bool, side: Side | None = None) -> None:
    assembly = await ready(six_calls(), cases, parse_model_name("scripted:auto"))
    writer: type[RunWriter] = RunWriter
    if not traced:
        assembly, writer = replace(assembly, graph=untraced(assembly.graph)), UntracedWriter
    await (side or Side()).add(run_cases(assembly, folder, Limits(), writer=writer))


def stored(folder: Path, cases: int) -> Stored:
    """Measure a finished run; closing its journal has folded the write-ahead log in."""
    journal = Journal(folder / CALLS, read_only=True)
    with closing(journal):
        texts = {turn.text for conversation in journal.conversations() for turn in conversation}
    return Stored(
        cases,
        sum(path.stat().st_size for path in folder.glob("trace.jsonl*")),
        (folder / CALLS).stat().st_size,
        sum(len(text.encode(errors="replace")) for text in texts),
    )


def result(with_trace: Sequence[float], without: Sequence[float], once: Stored, twice: Stored) -> Result:
    """The ratio of processor times, with the sizes beside it."""
    shares = [one / other for one, other in zip(with_trace, without, strict=True)]
    return Result(
        "trace",
        Part("processor time of a scripted batch", "s", tuple(with_trace)),
        Part("the same without a trace", "s", tuple(without)),
        figures={
            "tracing_share": median(shares),
            "stored_over_unique_text": once.over_text,
            "linear": twice.a_case / once.a_case,
        },
        details={
            "cases": once.cases,
            "trace_bytes": once.trace,
            "journal_bytes": once.journal,
            "unique_text_bytes": once.text,
            "twice": {
                "cases": twice.cases,
                "trace_bytes": twice.trace,
                "journal_bytes": twice.journal,
                "unique_text_bytes": twice.text,
            },
        },
    )
