"""`evigraph serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.completion import recipe_names
from cli.terminal import duration, print_line, print_message, print_rows

if TYPE_CHECKING:
    from serving.vllm_server.spec import ServeSpec


def serve(
    model: Annotated[
        str | None, typer.Argument(help="A registered name, a folder, or a hub id. (default: the recipe's)")
    ] = None,
    extra: Annotated[
        list[str] | None, typer.Argument(help="Arguments for vLLM itself.", metavar="[-- ARGS...]")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            "-r",
            help="Serve recipe: the name of a packaged one, or a file of vLLM flags. (default: one that"
            " fits, if any)",
            metavar="NAME|FILE",
            autocompletion=recipe_names,
        ),
    ] = None,
    recipes: Annotated[bool, typer.Option("--recipes", help="List the packaged serve recipes.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="Model name in requests. (default: MODEL)")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs to split the model across.")] = None,
    max_model_len: Annotated[int | None, typer.Option(min=1, help="Context length in tokens.")] = None,
    python: Annotated[
        Path | None,
        typer.Option(
            help="Interpreter that has vLLM. "
            "(default: $EVIGRAPH_VLLM_PYTHON, this one, .venv-vllm/bin/python)"
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="File for vLLM's output. (default: a temporary one)")
    ] = None,
    print_command: Annotated[
        bool, typer.Option("--print-command", "--dry-run", help="Print the exact command and start nothing.")
    ] = False,
) -> None:
    """Start a vLLM server, wait until it is ready, and keep it until Ctrl-C.

    vLLM runs in its own interpreter and process group. All its processes end with this command, even if
    it is killed. Exit code 0: stopped after it was ready; 1: vLLM ended by itself; 2: it could not start;
    130: interrupted before it was ready.

    Example: evigraph serve smollm2-135m
    """
    from serving.protocol.errors import ModelError
    from serving.vllm_server.find import find_vllm, inspect_vllm
    from serving.vllm_server.recipes import load_serve_recipe
    from serving.vllm_server.spec import plan_server

    if recipes:
        _print_recipes()
        return
    more = list(extra or [])
    if model is not None and model.startswith("-"):
        # With no MODEL, the first argument behind the -- lands in its place.
        more.insert(0, model)
        model = None
    if more and not more[0].startswith("-"):
        raise ModelError(f"one model a server: {more[0]!r} is one too many")
    chosen = load_serve_recipe(recipe) if recipe else None
    spec = plan_server(
        inspect_vllm(find_vllm(python)),
        model,
        port,
        name=name,
        recipe=chosen,
        host=host,
        gpus=gpus,
        max_model_len=max_model_len,
        extra=more,
    )
    for note in spec.notes:
        print_message(note)
    if print_command:
        _print_command(spec)
        return
    _serve(spec, log)


def _print_recipes() -> None:
    from serving.vllm_server.recipes import packaged_recipes

    rows = [(recipe.name, str(recipe.gpus or "CPU"), recipe.summary) for recipe in packaged_recipes()]
    print_rows(("recipe", "GPUs", "description"), rows)


def _print_command(spec: ServeSpec) -> None:
    import shlex

    variables = [f"{name}={shlex.quote(value)}" for name, value in spec.environment.items()]
    print_line(" ".join([*variables, shlex.join(spec.command)]))


def _serve(spec: ServeSpec, log: Path | None) -> None:
    import signal

    from cli.progress import progress
    from serving.vllm_server.server import start_server

    for number in (signal.SIGTERM, signal.SIGHUP):
        # What `nohup` has ignored stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    with progress("server") as shown:
        server = start_server(spec, lambda text: shown.advance(details=text), log=log, every_s=0.5)
    with server:
        try:
            print_line(f"ready after {duration(server.seconds)} (log: {server.log})")
            print_line(f"model    {server.model_string}")
            next_command = f"evigraph run tamu CASES... --model {server.model_string}"
            print_line(f"next     {next_command}")
            print_message("Ctrl-C ends it")
            fault = server.wait()
        except KeyboardInterrupt:
            print_message("stopping vLLM")
            return
    print_message(f"evigraph: {fault}")
    raise typer.Exit(1)
