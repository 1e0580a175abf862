"""Batches of cases: run folders that are started and continued from Python."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from cases.formats.plain_jsonl import write_jsonl
from evigraph.background import run_in_background
from evigraph.given_cases import CaseLike, as_case
from evigraph.request import Models, apply_policy, make_request, models_by_role
from graph.recipe import FLAGSHIP
from runs import Run, RunFolder
from runs import open as open_run
from runs.execute import sessions
from runs.execute.batch import Options
from runs.execute.watcher import Progress
from runs.record.folder import demand_empty
from serving.protocol.limits import Limits

logger = logging.getLogger("evigraph")


class _Watcher:
    """Passes lines on, and shows no progress."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self.notify = report or logger.info

    def update(self, progress: Progress) -> None:
        """Nothing."""


def run(
    cases: str | Path | Iterable[CaseLike],
    out: str | Path,
    recipe: str = FLAGSHIP,
    model: Models = None,
    *,
    key: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    places: Mapping[str, str | Path] | None = None,
    policy: str | Path | None = None,
    allow_hosted: bool = False,
    concurrency: int | None = None,
    limits: Limits | None = None,
    probe: bool = True,
    keep_going: bool = False,
    report: Callable[[str], None] | None = None,
) -> Run:
    """Run a batch of cases, as `evigraph run` does.

    Args:
        cases: A case file or a folder of them; or dicts and objects, which are written to `OUT.cases.jsonl`.
        out: The run folder.
        recipe: Name of a packaged recipe or a recipe file.
        model: A model string or a LangChain chat model, or a dict of them by role; None for the recipe's.
        key: Key file of the cases.
        settings: Values of the recipe to change, by dotted field.
        places: Files, folders and URLs by the name of their option.
        policy: A data policy.
        allow_hosted: Whether texts of cases without a policy may go to public hosts.
        concurrency: Cases at once; None for as many as there are connections.
        limits: Request limits for servers.
        probe: Whether servers are probed at the start.
        keep_going: Continue even if the first five cases are all degraded.
        report: Called with each line that the command would print.

    Returns:
        The run, open for reading. Cases may have failed: see `run.manifest.counts`.

    Raises:
        RecipeError, ModelError, PolicyError, InputError, RunError: Something is missing, wrong or forbidden.
    """
    apply_policy(policy, allow_hosted=allow_hosted)
    out = Path(out)
    demand_empty(out)
    if isinstance(cases, str | Path):
        file = Path(cases)
    else:
        file = out.with_name(f"{out.name}.cases.jsonl")
        given = [as_case(one) for one in cases]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(file, given)
    keys = () if key is None else (Path(key),)
    request = make_request(recipe, model, settings, places, (file,), keys)
    options = Options("run", concurrency, limits or Limits(), probe=probe, keep_going=keep_going)
    stop, watcher = asyncio.Event(), _Watcher(report)
    return _opened(sessions.start(request, out, options, stop=stop, watcher=watcher))


def resume(
    run: str | Path,
    model: Models = None,
    *,
    policy: str | Path | None = None,
    allow_hosted: bool = False,
    concurrency: int | None = None,
    limits: Limits | None = None,
    probe: bool = True,
    keep_going: bool = False,
    report: Callable[[str], None] | None = None,
) -> Run:
    """Continue a run that was interrupted; answered calls are not made again.

    All arguments but the folder are those of `run`. A model is needed if the run began with an object, or if
    an address has changed.

    Raises:
        RunError: Something that shapes results has changed since the run began, or the run is damaged.
    """
    apply_policy(policy, allow_hosted=allow_hosted)
    path = Path(run)
    recorded = RunFolder(path).manifest.model_names
    models = None if model is None else models_by_role(model, recorded)
    options = Options("resume", concurrency, limits or Limits(), probe=probe, keep_going=keep_going)
    stop, watcher = asyncio.Event(), _Watcher(report)
    return _opened(sessions.resume(path, options, recipe=None, models=models, stop=stop, watcher=watcher))


def _opened(session: Coroutine[Any, Any, RunFolder]) -> Run:
    return open_run(run_in_background(session).path)
