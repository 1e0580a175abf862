"""`evigraph batch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import JsonOption, RunFolderArgument

batch = typer.Typer(
    no_args_is_help=True, help="Files of calls for `vllm run-batch`, where the model runs somewhere else."
)

_ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Whose calls, as the run names it; needed where several models wait for files.",
        metavar="STRING",
    ),
]


@batch.command("export")
def export_(
    run: RunFolderArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File of requests; one that is there is replaced.")
    ],
    model: _ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the calls that the cases of a run wait for, as lines of OpenAI's batches.

    The run is one with `--model batch:vllm:NAME`. `NAME` has to be the name under which vLLM serves the model
    there. Calls that begin alike stand together. Nothing changes in the run, so an export can be repeated.

    Example: evigraph batch export last --out requests.jsonl
    """
    from cli.terminal import plural, print_json, print_line
    from runs.batch_files import export_calls
    from runs.folder import RunFolder
    from runs.manifest import quoted

    made = export_calls(RunFolder(run), out, model)
    if as_json:
        print_json({"file": str(out), "model": made.model, "calls": made.calls, "requests": made.requests})
        return
    print_line(f"{out}  {plural(made.calls, 'call')} in {plural(made.requests, 'line')}", soft_wrap=True)
    answer = f"vllm run-batch -i {quoted(out)} -o results.jsonl --model {quoted(made.model)}"
    print_line(f"there: {answer}", soft_wrap=True)
    print_line(f"next: evigraph batch import {quoted(run)} results.jsonl", soft_wrap=True)


@batch.command("import")
def import_(
    run: RunFolderArgument,
    files: Annotated[
        list[Path], typer.Argument(help="Files that `vllm run-batch -o` has written.", metavar="FILE...")
    ],
    model: _ModelOption = None,
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Have calls fail that no file has answered; `evigraph retry` asks again."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read files of results into the journal of a run; `evigraph resume` goes on with them.

    Results may come in any order, in several files, and more than once. Calls without a result wait on, and
    the next export has them again. Exit codes: 0 all results were read; 1 some failed, or a file breaks off;
    2 refused.

    Example: evigraph batch import last results.jsonl
    """
    import asyncio

    from cli.terminal import plural, print_json, print_line, print_message
    from runs.batch_files import import_results
    from runs.manifest import quoted

    made = asyncio.run(import_results(run, files, print_message, model=model, final=final))
    if as_json:
        print_json(
            {
                "run": str(run),
                "rows": dict(made.rows),
                "known": made.known,
                "left": made.left,
                "faults": made.faults,
            }
        )
    else:
        parts = [f"{number:,} {name}" for name, number in made.rows.items()]
        parts += [f"{made.known:,} read before"] if made.known else []
        print_line(f"results: {', '.join(parts) or 'none'}")
        if made.left:
            print_line(
                f"{plural(made.left, 'call')} without a result; the rest again: evigraph batch export"
                f" {quoted(run)} --out requests.jsonl",
                soft_wrap=True,
            )
        print_line(f"next: evigraph {made.command} {quoted(run)}", soft_wrap=True)
        for fault in made.faults:
            print_message(f"not read to its end: {fault}", soft_wrap=True)
    if made.faults or made.rows["failed"] or made.rows["missing"]:
        raise typer.Exit(1)
