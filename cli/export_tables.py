"""Runs as tables, and what is printed of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cases.errors import InputError
from cli.terminal import messages, output, safe
from evals.frames.export import export
from evals.frames.inspect_log import write_inspect_log
from evals.frames.tables import NamedRun
from evals.scoring.run_gold import gold_of_run
from runs.folder import RunFolder


def export_tables(
    runs: Sequence[RunFolder],
    folder: Path,
    *,
    key: Sequence[Path],
    cases: Sequence[Path],
    inspect: bool,
    quiet: bool,
) -> dict[str, object]:
    """Write the tables and, if wanted, Inspect's logs; the summary for `--json`.

    Raises:
        InputError: A named key or case file is at fault, or the folder cannot be written.
    """
    named = []
    for run in runs:
        try:
            gold = gold_of_run(run, key, cases)
        except InputError as error:
            if key or cases:
                raise
            # The inputs may have moved since; everything but the key's columns is in the run.
            messages().print(safe(f"without a key: {error}"))
            gold = {}
        named.append(NamedRun(str(run.path), run, gold))
    rows = export(named, folder)
    logs = [write_inspect_log(one, folder) for one in named] if inspect else []
    if not quiet:
        for name, count in rows.items():
            output().print(safe(f"{folder / name}.parquet  {count:,} rows"))
        for path in logs:
            output().print(safe(str(path)))
        output().print(safe(f"read: pandas.read_parquet({str(folder / 'cases.parquet')!r})"))
    return {"folder": str(folder), "rows": rows, "inspect_logs": [str(path) for path in logs]}
