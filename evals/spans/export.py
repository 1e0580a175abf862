"""Runs to a file of spans or to a collector, a request in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cases.files import write_atomically
from evals.spans.collector import Collector, Refusal
from evals.spans.errors import SpanExportError
from evals.spans.of_run import resource, traces
from evals.spans.otlp_json import json_lines
from evals.spans.span import Span
from runs.folder import RunFolder

Report = Callable[[int], None]
"""Told how many passes of cases have been read."""


def write_spans(runs: Sequence[RunFolder], path: Path, *, payloads: bool, report: Report) -> int:
    """Write spans as lines of OTLP's JSON; the number of them.

    Raises:
        InputError: The file cannot be written; an old one is as it was.
        JournalError: Payloads are wanted and a journal cannot be read.
    """
    written = 0

    def lines() -> Iterator[bytes]:
        nonlocal written
        for run, spans in _spans_of_runs(runs, payloads, report):
            for line, count in json_lines(resource(run), spans):
                written += count
                yield line

    write_atomically(path, lines())
    return written


def send_spans(
    runs: Sequence[RunFolder], collector: Collector, *, payloads: bool, report: Report
) -> tuple[int, list[Refusal]]:
    """Send spans; the number of those taken, and what was refused.

    Raises:
        SpanExportError: The collector is away or refuses a request; says how many spans it took before.
        JournalError: Payloads are wanted and a journal cannot be read.
    """
    from evals.spans.encode import requests, span_count

    taken = 0
    refused: list[Refusal] = []
    for run, spans in _spans_of_runs(runs, payloads, report):
        for request in requests(resource(run), spans):
            try:
                refusal = collector.send(request)
            except SpanExportError as error:
                raise SpanExportError(f"{error} ({taken:,} spans were taken)") from None
            taken += span_count(request) - (refusal.spans if refusal else 0)
            refused += [refusal] if refusal else []
    return taken, refused


def _spans_of_runs(
    runs: Sequence[RunFolder], payloads: bool, report: Report
) -> Iterator[tuple[RunFolder, Iterator[Span]]]:
    read = 0

    def spans(run: RunFolder) -> Iterator[Span]:
        nonlocal read
        for trace in traces(run, payloads=payloads):
            yield from trace
            read += 1
            report(read)

    for run in runs:
        yield run, spans(run)
