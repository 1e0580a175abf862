"""`evigraph export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cases.texts import printable
from cli.completion import run_names
from cli.options import CasesOption, KeyOption, run_folder
from cli.terminal import Result, plural, print_line, print_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evals.scoring.gold import GoldCase
    from runs.record.folder import RunFolder

_SPANS = "OpenTelemetry spans"


def export(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders.", metavar="RUN...", parser=run_folder, autocompletion=run_names),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the tables. (default: frames in the run, or out/frames for several; with --otlp"
            " or --spans no tables are written without it)",
        ),
    ] = None,
    key: KeyOption = None,
    cases: CasesOption = None,
    with_csv: Annotated[
        bool, typer.Option("--csv", help="Write each table as CSV as well, for spreadsheets.")
    ] = False,
    inspect: Annotated[
        bool, typer.Option("--inspect", help="Write a log for Inspect (`inspect view`) of each run as well.")
    ] = False,
    otlp: Annotated[
        str | None,
        typer.Option(
            help="Send the runs as spans to this OTLP receiver by HTTP, such as http://127.0.0.1:4318.",
            metavar="URL",
            rich_help_panel=_SPANS,
        ),
    ] = None,
    spans: Annotated[
        Path | None,
        typer.Option(
            help="Write the runs as spans to this file, one line of OTLP JSON per request.",
            metavar="FILE",
            rich_help_panel=_SPANS,
        ),
    ] = None,
    payloads: Annotated[
        bool,
        typer.Option(
            "--payloads",
            help="Put prompts, replies, answers and error messages into the spans.",
            rich_help_panel=_SPANS,
        ),
    ] = False,
) -> Result:
    """Write runs as Parquet tables, or as OpenTelemetry spans; no text of a case without --payloads.

    Tables: runs, cases, sentences, votes, calls. Spans: a trace for each pass of a case.

    Example: evigraph export out/2026-11-21T10-15-tamu-ab12 --inspect
    """
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder
    from serving.protocol.addresses import host_of

    of_spans = otlp is not None or spans is not None
    if payloads and not of_spans:
        raise typer.BadParameter("it belongs to --otlp or --spans", param_hint="--payloads")
    wants_tables = not of_spans or out is not None or inspect or with_csv
    folders = [RunFolder(path) for path in runs]
    summary: dict[str, Any] = {}
    lines: list[str] = []
    if wants_tables:
        from evals.scoring.gold import gold_if_readable

        folder = out or (runs[0] / "frames" if len(runs) == 1 else Path("out") / "frames")
        gold = [gold_if_readable(run, key or (), cases or (), print_message) for run in folders]
        summary |= _export_tables(folders, gold, folder, lines, inspect=inspect, with_csv=with_csv)
    if of_spans:
        summary["spans"] = _export_spans(folders, otlp, spans, lines, payloads=payloads)
    what = [name for name, wanted in (("tables", wants_tables), ("spans", of_spans)) if wanted]
    to = host_of(otlp) if otlp is not None else str(spans or out or "frames")
    for run in runs:
        record_if_possible(run, "exported", what=what, to=to, payloads=payloads)

    def print_lines() -> None:
        for line in lines:
            print_line(line)

    return Result(summary, print_lines, int(of_spans and summary["spans"]["refused"] > 0))


def _export_tables(
    runs: Sequence[RunFolder],
    gold: Sequence[Mapping[str, GoldCase]],
    folder: Path,
    lines: list[str],
    *,
    inspect: bool,
    with_csv: bool,
) -> dict[str, Any]:
    """Write the tables and, if requested, Inspect's logs.

    Returns the written files, with lines for people.
    """
    from evals.frames.inspect_log import write_inspect_log
    from evals.frames.tables import NamedRun, export

    named = [NamedRun(printable(str(run.path)), run, of_run) for run, of_run in zip(runs, gold, strict=True)]
    rows = export(named, folder, with_csv=with_csv)
    logs = [str(write_inspect_log(one, folder)) for one in named] if inspect else []
    for name, count in rows.items():
        also = f", and {name}.csv" if with_csv else ""
        lines.append(f"{folder / name}.parquet  {plural(count, 'row')}{also}")
    lines += [*logs, f"read: pyarrow.parquet.read_table({str(folder / 'cases.parquet')!r})"]
    return {"folder": str(folder), "rows": rows, "inspect_logs": logs}


def _export_spans(
    runs: Sequence[RunFolder], otlp: str | None, file: Path | None, lines: list[str], *, payloads: bool
) -> dict[str, Any]:
    """Write spans to a file, send them to a collector, or both; returns the result, with lines for people."""
    from cli.progress import progress
    from evals.spans.collector import write_spans
    from evals.spans.otlp import require_otel

    if otlp is not None:
        require_otel()
    summary: dict[str, Any] = {"payloads": payloads, "refused": 0}
    total = sum(run.manifest.inputs.cases for run in runs)
    if file is not None:
        with progress("cases", total) as shown:
            summary["written"] = write_spans(runs, file, payloads=payloads, report=shown.advance)
        summary["file"] = str(file)
        lines.append(f"{file}  {plural(summary['written'], 'span')}")
    if otlp is not None:
        summary |= _send(runs, otlp, total, payloads=payloads)
        lines.append(f"{summary['otlp']} took {plural(summary['taken'], 'span')}")
    return summary


def _send(runs: Sequence[RunFolder], otlp: str, total: int, *, payloads: bool) -> dict[str, Any]:
    from cli.progress import progress
    from evals.spans.collector import HEADERS_VARIABLE, Collector, send_spans

    with Collector(otlp) as collector:
        if collector.header_names:
            named = ", ".join(collector.header_names)
            print_message(f"with headers of {HEADERS_VARIABLE}: {named}")
        with progress("cases", total) as shown:
            taken, refused = send_spans(runs, collector, payloads=payloads, report=shown.advance)
    count = sum(refusal.spans for refusal in refused)
    if count:
        why = next((refusal.message for refusal in refused if refusal.message), "it does not say why")
        print_message(f"{collector.name} refused {plural(count, 'span')}: {why}")
    return {"otlp": collector.name, "taken": taken, "refused": count}
