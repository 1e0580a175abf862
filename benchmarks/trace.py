"""What the trace of a run costs: processor time, and bytes stored for each byte of text.

Time: a scripted batch against the same batch without a trace; cases, calls and journal are the same. Size:
trace and call journal of a run over the distinct messages and replies in them, and the size of a case in a
run of twice the cases over that in this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from cases.formats.plain_jsonl import write_jsonl
from cases.records import Case
from cases.texts import plural
from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import Times, scratch_folder, turns
from evals.bench.workload import invented_cases, ready, run_cases, six_calls
from runs.execute.case_run import Graph
from runs.record.folder import CALLS, Line, RunWriter
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.model_name import parse_model_name


@dataclass(frozen=True, slots=True)
class Options:
    """Cases of a run, and repeats of both sides."""

    cases: int = 200
    repeats: int = 5


TINY = {"cases": 2, "repeats": 2}


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes on disk of a run; `text` counts its distinct messages and replies, as UTF-8."""

    cases: int
    trace: int
    journal: int
    text: int

    @property
    def over_text(self) -> float:
        return (self.trace + self.journal) / self.text

    @property
    def a_case(self) -> float:
        return (self.trace + self.journal) / self.cases


def measure(options: Options, report: Report) -> Result:
    """Both sides in turn; then a run of twice the cases."""
    with scratch_folder() as folder:
        return asyncio.run(_measure(options, folder, report))


async def _measure(options: Options, folder: Path, report: Report) -> Result:
    cases = folder / "cases.jsonl"
    write_jsonl(cases, varied_cases(options.cases))
    report("warming up")
    await _run(cases, folder / "warm-up", traced=True)
    await _run(cases, folder / "warm-up-untraced", traced=False)
    with_trace, without = Times(), Times()
    for repeat, side in turns((with_trace, without), options.repeats, report):
        traced = side is with_trace
        await _run(cases, folder / f"run-{repeat}-{traced}", traced=traced, times=side)
    report(f"a run of {plural(2 * options.cases, 'case')}")
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


async def _run(cases: Path, folder: Path, *, traced: bool, times: Times | None = None) -> None:
    assembly = await ready(six_calls(), cases, parse_model_name("scripted:auto"))
    writer: type[RunWriter] = RunWriter
    if not traced:
        assembly, writer = replace(assembly, graph=untraced(assembly.graph)), UntracedWriter
    with (times or Times()).measured():
        await run_cases(assembly, folder, Limits(), writer=writer)


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
    """The ratio of processor times, with the sizes."""
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


class _UntracedGraph:
    """A graph that only streams its state, so that there is nothing to record in a trace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def astream(self, *arguments: Any, **options: Any) -> AsyncIterator[tuple[str, Any]]:
        async for state in self._graph.astream(*arguments, **{**options, "stream_mode": "values"}):
            yield "values", state


def untraced(graph: Graph) -> Graph:
    """The graph without the events that a trace is made of."""
    return cast("Graph", _UntracedGraph(graph))


class UntracedWriter(RunWriter):
    """Writes a run without its trace."""

    def append(self, case: Line, trace: Sequence[Line]) -> None:
        super().append(case, ())
