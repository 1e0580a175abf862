"""`evigraph show`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, RunFolderArgument


def show(
    run: RunFolderArgument,
    case: Annotated[
        str | None, typer.Argument(help="A case id.", metavar="[CASE]", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed cases.")] = False,
    rows: Annotated[int, typer.Option("--rows", min=1, help="At most so many cases.")] = 50,
    calls: Annotated[bool, typer.Option("--calls", help="With CASE: every prompt and reply too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a run's cases, or what every node decided on one case.

    Example: evigraph show out/2026-11-21T10-15-tamu-ab12 101
    """
    from cli.show_case import show_case
    from cli.show_run import show_run
    from cli.terminal import print_json
    from runs.folder import RunFolder

    folder = RunFolder(run)
    if case is None:
        show_run(folder, only_failed=failed, rows=rows, as_json=as_json)
    elif as_json:
        print_json({"case": folder.require_case(case), "trace": folder.trace(case)})
    else:
        show_case(folder, case, with_calls=calls)
