"""`evigraph merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal import Result


def merge(
    shards: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs with --shard, in any order.", metavar="SHARDS..."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The new run's folder.", metavar="FOLDER")],
    allow_incomplete: Annotated[
        bool,
        typer.Option(
            "--allow-incomplete",
            help="Skip missing shards, and include unfinished ones. A resume of the new run runs the rest.",
        ),
    ] = False,
) -> Result:
    """Merge shards into one run, as a single machine would have written it.

    Cases come in the order of the input, and calls, traces, reviews and audit logs are kept. The shards are
    not changed. A shard that is missing, repeated, unfinished or of another run is reported by name, and
    nothing is written. Exit codes: 0 merged; 1 merged, and some cases failed or were not run; 2 refused.

    Example: evigraph merge night/shards/* --out night/run
    """
    from cli.progress import Steps, progress
    from cli.summary import summarise
    from runs.move.merge import merge as merge_runs

    with progress() as shown:
        steps = Steps(shown)
        folder = merge_runs(shards, out, shown.notify, steps.show, allow_incomplete=allow_incomplete)
    summary = summarise(folder)
    complete = folder.manifest.status == "finished" and not folder.manifest.counts.failed
    return Result({**summary.as_json(), "shards": len(shards)}, summary.print, int(not complete))
