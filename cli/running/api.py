"""`evigraph api`."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.completion import recipe_names
from cli.flags import SessionFlags
from cli.options import HostOption, PortOption, TlsOption, UsersOption, local_path, users_of
from cli.terminal import plural, print_message

if TYPE_CHECKING:
    from api.offer import Limits, Offer

_DEFAULT = Path("out/api")
_CHOICES = "What clients may choose"
_LIMITS = "Limits"


def api(
    runs: Annotated[
        Path, typer.Argument(help="Folder of the runs; it is made where it is missing.", metavar="[RUNS]")
    ] = _DEFAULT,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model that clients may choose, and the name that they see; without NAME= that is the"
            " string without its address. The first is the default. Repeatable.",
            metavar="[NAME=]STRING",
            rich_help_panel=_CHOICES,
        ),
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--recipe",
            "-r",
            help="A recipe that clients may choose: a packaged one, or a file. The first is the default."
            " Repeatable. (default: the flagship system's)",
            metavar="NAME|FILE",
            autocompletion=recipe_names,
            rich_help_panel=_CHOICES,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="A field of recipes that clients may change, such as evidence.votes, with the words that"
            " they may choose. Repeatable. (default: none)",
            metavar="FIELD[=WORD,WORD]",
            rich_help_panel=_CHOICES,
        ),
    ] = None,
    demos: Annotated[
        Path | None,
        typer.Option(
            help="Demonstrations, as for `run`.",
            metavar="FOLDER|FILE",
            parser=local_path,
            rich_help_panel=_CHOICES,
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(help="Corpus to search, as for `run`.", metavar="FOLDER", rich_help_panel=_CHOICES),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Index of vectors, as for `run`.", metavar="FOLDER", rich_help_panel=_CHOICES),
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    users: UsersOption = None,
    tls: TlsOption = None,
    max_running: Annotated[int, typer.Option(min=1, help="Runs at a time.", rich_help_panel=_LIMITS)] = 2,
    max_queued: Annotated[
        int, typer.Option(min=0, help="Runs of one user that wait for their turn.", rich_help_panel=_LIMITS)
    ] = 100,
    max_cases: Annotated[
        int, typer.Option(min=1, help="Cases of one submission.", rich_help_panel=_LIMITS)
    ] = 1000,
    max_bytes: Annotated[
        int, typer.Option(min=1024, help="Bytes of one request.", rich_help_panel=_LIMITS)
    ] = 16 << 20,
    rate: Annotated[
        int, typer.Option(min=1, help="Requests of one user a minute.", rich_help_panel=_LIMITS)
    ] = 600,
    drain: Annotated[
        float,
        typer.Option(
            min=0,
            help="Seconds that runs may take to end after SIGTERM or Ctrl-C; the rest is then stopped,"
            " and continues at the next start.",
            rich_help_panel=_LIMITS,
        ),
    ] = 20.0,
    *,
    flags: SessionFlags,
) -> None:
    """Serve runs over HTTP: submit, watch, read, review and cancel; with a page for questions.

    Each submission is an ordinary run folder in RUNS. Without `--users` one token is printed at the start,
    and only this machine is served. A service that ends, or is killed, loses nothing: the next one continues
    with submitted work. Budgets are of each run. Needs the extra `api`.

    Example: evigraph api out/api --model fast=vllm:Qwen/Qwen3-8B@http://gpu01:8000/v1 --users users.json
    """
    from serving.protocol.addresses import is_loopback, plain_host
    from storage.errors import InputError

    if not model:
        raise typer.BadParameter("name the model that answers", param_hint="--model")
    if users is None and not is_loopback(plain_host(host)):
        raise typer.BadParameter("other machines are served only where users have tokens: give --users FILE")
    options = flags.options("run")
    try:
        from api.offer import Limits
        from api.server import serve, shown
        from api.service import Service
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "prometheus_client"):
            raise
        raise InputError("evigraph api", "needs an extra", "pip install -e '.[api]' in the clone") from None
    from api.jobs import Jobs
    from ranking.rankers.load import located
    from serving.backends import demand_allowed
    from serving.policy.gate import hold_for
    from storage.private import private_folder
    from viewer.library import Library
    from viewer.listening import Certificate, listen

    limits = Limits(max_bytes, max_cases, max_queued, max_running, rate)
    places = {"demos": demos, "corpus": corpus, "index": index}
    offer = _offer(
        model,
        recipe or [],
        setting or [],
        {name: one for name, one in places.items() if one is not None},
        limits,
    )
    certificate = None if tls is None else Certificate.checked(*tls)
    known = users_of(users)
    private_folder(runs)
    # Before anything is started, asked or served.
    policies = hold_for([runs])
    for name in offer.models:
        for asked in offer.assigned(name).values():
            demand_allowed(asked)
    bound = listen(host, port)
    jobs = Jobs(runs, policies)
    service = Service(jobs, offer, options, os.environ.get("EVIGRAPH_USER") or getpass.getuser())
    library = Library([runs], print_message, lambda path: shown(service, path))

    def started(address: str, page: str, token: str | None) -> None:
        waiting = sum(service.runner.counts().values())
        typer.echo(f"API: {address}/v1 (described in {address}/v1/openapi.json)")
        typer.echo(f"page: {page}")
        if token is not None:
            typer.echo(f"token: {token}")
        if waiting:
            print_message(f"{plural(waiting, 'run')} of before {'goes' if waiting == 1 else 'go'} on")
        print_message("Ctrl-C ends the service; runs that have not ended go on at the next start.", wrap=True)

    try:
        service.start()
        serve(
            service,
            library,
            bound,
            host,
            started,
            ranker=located("support"),
            users=known,
            certificate=certificate,
            drain=drain,
        )
    finally:
        service.drain(0.0)
        bound.close()
        library.close()
        jobs.close()


def _offer(
    models: Sequence[str],
    recipes: Sequence[str],
    settings: Sequence[str],
    places: dict[str, Path],
    limits: Limits,
) -> Offer:
    """Choices for clients.

    Raises:
        BadParameter: A name is ambiguous.
        ModelError, RecipeError: A model or a recipe cannot be used.
    """
    from api.offer import Offer
    from graph.recipe import FLAGSHIP, located
    from serving.protocol.model_name import parse_model_name

    named: dict[str, str] = {}
    for text in models:
        name, separator, model = text.partition("=")
        if not separator or ":" in name:
            name, model = parse_model_name(text).identity, text
        if not name or name in named:
            raise typer.BadParameter(f"{name!r} names two models; call one NAME=STRING", param_hint="--model")
        named[name] = model
    found: dict[str, str] = {}
    for origin in recipes or [FLAGSHIP]:
        name = Path(origin).stem if Path(origin).is_file() else origin
        if name in found:
            raise typer.BadParameter(f"{name!r} names two recipes; rename a file", param_hint="--recipe")
        found[name] = located(origin)
    allowed: dict[str, list[str]] = {}
    for given in settings:
        field, _, words = given.partition("=")
        allowed.setdefault(field, []).extend(word for word in words.split(",") if word)
    return Offer(named, found, allowed, places, limits)
