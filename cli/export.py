"""`evigraph export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import CasesOption, JsonOption, KeyOption

_SPANS = "OpenTelemetry spans"


def export(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", metavar="RUN...", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the tables. (default: frames in the run, or out/frames for several; with --otlp"
            " or --spans no tables are written without it)",
            show_default=False,
        ),
    ] = None,
    key: KeyOption = None,
    cases: CasesOption = None,
    inspect: Annotated[
        bool,
        typer.Option("--inspect", help="Write a log for Inspect (`inspect view`) of each run as well."),
    ] = False,
    otlp: Annotated[
        str | None,
        typer.Option(
            "--otlp",
            help="Send the runs as spans to this OTLP receiver over HTTP, such as http://127.0.0.1:4318.",
            metavar="URL",
            show_default=False,
            rich_help_panel=_SPANS,
        ),
    ] = None,
    spans: Annotated[
        Path | None,
        typer.Option(
            "--spans",
            help="Write the runs as spans to this file, a line of OTLP's JSON a request.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=_SPANS,
        ),
    ] = None,
    payloads: Annotated[
        bool,
        typer.Option(
            "--payloads",
            help="Put prompts, replies, answers and messages of errors into the spans.",
            rich_help_panel=_SPANS,
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write runs as Parquet tables, or as OpenTelemetry spans; no text of a case without --payloads.

    Tables: runs, cases, sentences, votes, calls. Spans: a trace for each pass of a case.

    Example: evigraph export out/2026-11-21T10-15-tamu-ab12 --inspect
    """
    from cli.export_spans import export_spans
    from cli.export_tables import export_tables
    from cli.terminal import print_json
    from runs.folder import RunFolder

    of_spans = otlp is not None or spans is not None
    if payloads and not of_spans:
        raise typer.BadParameter("it belongs to --otlp or --spans", param_hint="--payloads")
    wants_tables = not of_spans or out is not None or inspect
    folders = [RunFolder(path) for path in runs]
    summary: dict[str, object] = {}
    if wants_tables:
        folder = out or (runs[0] / "frames" if len(runs) == 1 else Path("out") / "frames")
        summary |= export_tables(
            folders, folder, key=key or (), cases=cases or (), inspect=inspect, quiet=as_json
        )
    complete = True
    if of_spans:
        exported = export_spans(folders, otlp, spans, payloads=payloads, quiet=as_json)
        complete = not exported["refused"]
        summary |= {"spans": exported}
    if as_json:
        print_json(summary)
    if not complete:
        raise typer.Exit(1)
