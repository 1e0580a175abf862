"""`evigraph export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import CasesOption, JsonOption, KeyOption


def export(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", metavar="RUN...", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the files. (default: frames in the run, or out/frames for several)",
            show_default=False,
        ),
    ] = None,
    key: KeyOption = None,
    cases: CasesOption = None,
    inspect: Annotated[
        bool,
        typer.Option("--inspect", help="Write a log for Inspect (`inspect view`) of each run as well."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write runs as Parquet tables: runs, cases, sentences, votes, calls. They hold no text of a case.

    Example: evigraph export out/2026-11-21T10-15-tamu-ab12 --inspect
    """
    from cases.errors import InputError
    from cli.terminal import messages, output, print_json, safe
    from evals.frames.export import export as write
    from evals.frames.inspect_log import write_inspect_log
    from evals.frames.tables import NamedRun
    from evals.scoring.run_gold import gold_of_run
    from runs.folder import RunFolder

    named = []
    for path in runs:
        run = RunFolder(path)
        try:
            gold = gold_of_run(run, key or (), cases or ())
        except InputError as error:
            if key or cases:
                raise
            # The inputs may have moved since; everything but the key's columns is in the run.
            messages().print(safe(f"without a key: {error}"))
            gold = {}
        named.append(NamedRun(str(path), run, gold))
    folder = out or (runs[0] / "frames" if len(runs) == 1 else Path("out") / "frames")
    rows = write(named, folder)
    logs = [write_inspect_log(one, folder) for one in named] if inspect else []
    if as_json:
        print_json({"folder": str(folder), "rows": rows, "inspect_logs": [str(path) for path in logs]})
        return
    for name, count in rows.items():
        output().print(safe(f"{folder / name}.parquet  {count:,} rows"))
    for path in logs:
        output().print(safe(str(path)))
    output().print(safe(f"read: pandas.read_parquet({str(folder / 'cases.parquet')!r})"))
