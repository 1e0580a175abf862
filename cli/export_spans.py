"""Runs as spans, and what is printed of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.counted_progress import CountedProgress
from cli.terminal import messages, output, safe
from evals.spans.collector import HEADERS_VARIABLE, Collector
from evals.spans.errors import require_otel
from evals.spans.export import send_spans, write_spans
from runs.folder import RunFolder


def export_spans(
    runs: Sequence[RunFolder], otlp: str | None, file: Path | None, *, payloads: bool, quiet: bool
) -> dict[str, Any]:
    """Write spans to a file, send them to a collector, or both; the summary for `--json`.

    Raises:
        SpanExportError: The extra for `otlp` is missing, or the collector does not take the spans.
        InputError: The file cannot be written.
        JournalError: Payloads are wanted and a journal cannot be read.
    """
    if otlp is not None:
        require_otel()
    summary: dict[str, Any] = {"payloads": payloads, "refused": 0}
    total = sum(run.manifest.inputs.cases for run in runs)
    if file is not None:
        with CountedProgress("cases", total) as progress:
            summary["written"] = write_spans(runs, file, payloads=payloads, report=progress.update)
        summary["file"] = str(file)
        if not quiet:
            output().print(safe(f"{file}  {summary['written']:,} spans"))
    if otlp is not None:
        summary |= _send(runs, otlp, total, payloads=payloads, quiet=quiet)
    return summary


def _send(runs: Sequence[RunFolder], otlp: str, total: int, *, payloads: bool, quiet: bool) -> dict[str, Any]:
    with Collector(otlp) as collector:
        if collector.header_names:
            named = ", ".join(collector.header_names)
            messages().print(safe(f"with headers of {HEADERS_VARIABLE}: {named}"))
        with CountedProgress("cases", total) as progress:
            taken, refused = send_spans(runs, collector, payloads=payloads, report=progress.update)
    if not quiet:
        output().print(safe(f"{collector.name} took {taken:,} spans"))
    count = sum(refusal.spans for refusal in refused)
    if count:
        why = next((refusal.message for refusal in refused if refusal.message), "it does not say why")
        messages().print(safe(f"{collector.name} refused {count:,} spans: {why}"))
    return {"otlp": collector.name, "taken": taken, "refused": count}
