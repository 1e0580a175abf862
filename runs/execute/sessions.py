"""Start, resume and retry: the cases each runs, and when each is rejected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from cases.texts import plural, quoted
from graph.recipe import RecipeError, differing_fields, load_recipe, make_recipe, override
from runs.execute.assemble import Assembly, Report, Request, assemble, closed_at_end, recorded_request
from runs.execute.batch import Options, run_batch
from runs.execute.servers import Servers
from runs.execute.watcher import Watcher
from runs.move.scratch import writing
from runs.on_ray.cases import RayCases, cases_on_ray
from runs.on_ray.cluster import demand_usable
from runs.on_ray.worker import Work
from runs.record.folder import CALLS, RunFolder, RunWriter, demand_empty
from runs.record.index import RunIndex
from runs.record.manifest import (
    CASE_FILES,
    FAILED,
    WAITING,
    BudgetCaps,
    Manifest,
    RunError,
    Status,
    differences,
)
from runs.record.purged import refuse_purged
from runs.review.reviewers import ReviewedRun
from runs.review.reviews import is_stale
from runs.upkeep.check import demand_whole
from serving.batches.desk import BatchDesk
from serving.journal.journal import Journal
from serving.protocol.model_name import ModelName, Role, parse_model_name
from serving.requests.client import ModelClient

_CORRECTED = "corrected_case_files"
"""The record of the digests that case and key files had before they were corrected, the first one first."""


async def start(
    request: Request,
    out: Path | None,
    options: Options,
    *,
    stop: asyncio.Event,
    watcher: Watcher,
    servers: Servers | None = None,
    journal: Path | None = None,
) -> RunFolder:
    """A new run, in `out` or in a new folder below `out/`.

    Servers that are given have been started already, and are left running for further runs. The folder links
    to a `journal` that other runs share.

    Raises:
        InputError, RecipeError, PromptError, ModelError, RunError: Before anything is asked.
    """
    if out is not None:
        # Before weights are loaded and servers are probed, which may take minutes.
        demand_empty(out)
    async with _ready(request, options, stop, watcher, servers) as (assembly, cluster):
        path = out or _new_folder(request.recipe.system, assembly.manifest)
        async with writing(path, options.scratch, watcher.notify, assembly.manifest) as folder:
            if journal is not None:
                folder.share_journal(journal)
            await run_batch(
                folder, assembly, options, skipped=(), stop=stop, watcher=watcher, cluster=cluster
            )
    return _indexed(path)


async def resume(
    path: Path,
    options: Options,
    *,
    recipe: str | None,
    models: Mapping[Role, ModelName] | None,
    stop: asyncio.Event,
    watcher: Watcher,
    servers: Servers | None = None,
    only_reviewed: bool = False,
) -> RunFolder:
    """Run the cases that have not ended, and those that waited for a person and have a review.

    Calls in the journal are replayed. A `recipe` that is named has to be the run's; `models` may have new
    addresses. With `only_reviewed`, cases that have not ended are left for another session.

    Raises:
        RunError: Something that shapes results has changed since the run began, or the run is damaged.
    """
    continued = _continued(path, options, models, stop, watcher, servers, recipe=recipe, resuming=True)
    async with continued as (folder, assembly, run):
        reviewed = reviewed_waiting(folder, watcher.notify)
        if assembly.idle:
            # A review that came meanwhile waits for a session that has its servers.
            reviewed = set()
        await run(skipped=set(folder.statuses()) - reviewed, only=reviewed if only_reviewed else None)
    return _indexed(path)


async def retry(
    path: Path,
    options: Options,
    *,
    models: Mapping[Role, ModelName] | None,
    stop: asyncio.Event,
    watcher: Watcher,
    corrected: bool = False,
    impaired: bool = False,
) -> RunFolder:
    """Run the failed cases again, and those that never ran. Rejected replies are asked for anew.

    With `corrected`, the case and key files are taken as they are now, and those cases run too that have
    changed. With `impaired`, completed cases with failed requests are rerun too: stored replies are replayed,
    and a case that then fails altogether keeps its result.

    Raises:
        RunError: Something that shapes results has changed since the run began, or the run is damaged.
    """
    continued = _continued(path, options, models, stop, watcher, corrected=corrected)
    async with continued as (folder, assembly, run):
        await _forget_failures(folder, assembly, options, watcher.notify)
        kept = {case_id for case_id, status in folder.statuses().items() if not status.startswith(FAILED)}
        kept -= reviewed_waiting(folder, watcher.notify)
        if impaired:
            kept -= folder.impaired(assembly.system.impairments)
        if corrected:
            kept = _take_corrected(folder, assembly, kept, watcher.notify)
        await run(skipped=kept)
    return _indexed(path)


@contextlib.asynccontextmanager
async def _ready(
    request: Request,
    options: Options,
    stop: asyncio.Event,
    watcher: Watcher,
    servers: Servers | None,
    recorded: Manifest | None = None,
    idle: bool = False,
) -> AsyncIterator[tuple[Assembly, RayCases | None]]:
    """All that the cases of a session need; with the workers of a cluster, where the user names one.

    `recorded` is from the resumed run, which is `idle` if no case is left.
    """
    if options.on is not None:
        demand_usable(request.models.values())
    async with contextlib.AsyncExitStack() as ending:
        started = servers or ending.enter_context(Servers(watcher.notify, stop))
        assembling = assemble(
            request,
            watcher.notify,
            started,
            options.limits,
            probing=options.probe,
            recorded=None if recorded is None else recorded.models,
            idle=idle,
        )
        assembly = await ending.enter_async_context(closed_at_end(assembling))
        budget = options.budget if recorded is None else recorded.budget.replaced_by(options.budget)
        _demand_prices(budget, assembly.manifest)
        cluster: RayCases | None = None
        if options.on is not None:
            work = Work.of(assembly, options.limits, budget)
            cluster = await ending.enter_async_context(cases_on_ray(options.on, work, stop, watcher.notify))
        yield assembly, cluster


@contextlib.asynccontextmanager
async def _continued(
    path: Path,
    options: Options,
    models: Mapping[Role, ModelName] | None,
    stop: asyncio.Event,
    watcher: Watcher,
    servers: Servers | None = None,
    *,
    recipe: str | None = None,
    corrected: bool = False,
    resuming: bool = False,
) -> AsyncIterator[tuple[RunWriter, Assembly, Callable[..., Awaitable[Status]]]]:
    """A resumed run: its folder, its assembly, and the function that runs its cases.

    With `resuming`, a run without a case to resume needs no server of its models.

    Raises:
        RunError: Something that shapes results has changed since the run began, or the run is damaged.
    """
    async with writing(path, options.scratch, watcher.notify) as folder:
        manifest = folder.manifest
        options = options.continuing(manifest)
        _refuse(folder)
        demand_whole(folder)
        _refuse_changed_recipe(manifest, recipe)
        request = recorded_request(manifest, models)
        if options.batches.online:
            # The recorded names stay, so that the next session sends batches again.
            names = {role: replace(name, batched=False) for role, name in request.models.items()}
            request = replace(request, models=names)
        # No case is left to run.
        idle = (
            resuming
            and options.on is None
            and len(folder.statuses()) >= manifest.inputs.cases
            and not reviewed_waiting(folder)
        )
        ready = _ready(request, options, stop, watcher, servers, manifest, idle)
        async with ready as (assembly, cluster):
            _refuse_changes(folder, assembly, corrected=corrected)
            if not options.batches.online:
                manifest.models = assembly.manifest.models
            manifest.policies, manifest.hosted = assembly.manifest.policies, assembly.manifest.hosted
            run = partial(run_batch, folder, assembly, options, stop=stop, watcher=watcher, cluster=cluster)
            yield folder, assembly, run


async def _forget_failures(folder: RunWriter, assembly: Assembly, options: Options, report: Report) -> None:
    """Mark failed calls to be repeated, except those of a lost batch that has come back."""
    journal = Journal(folder.path / CALLS)
    try:
        journal.forget_rejected()
        if journal.batches.records(("lost",)):
            client = ModelClient(assembly.backends, journal)
            batched = {str(one.name): one for one in assembly.backends.values() if one.batches is not None}
            desk = BatchDesk(journal, client, batched, report, options.batches.keep_remote)
            await desk.look_for_lost()
            await desk.aclose()
        journal.batches.forget_failures()
    finally:
        journal.close()


def _take_corrected(folder: RunWriter, assembly: Assembly, kept: set[str], report: Report) -> set[str]:
    """Replace the run's files by the current ones, and drop its results for cases that differ.

    Returns:
        Ids of unchanged cases, including their keys. Empty if the earlier texts are missing: then every case
        runs again, on replayed calls if its prompts are unchanged.
    """
    before, now = folder.manifest.inputs, assembly.manifest.inputs
    if before.sha256 == now.sha256:
        return kept
    with contextlib.closing(RunIndex(folder)) as index:
        cases = {case.id: case == index.case(case.id) for case in assembly.source}
        order = {case_id: place for place, case_id in enumerate(cases) if cases[case_id] and case_id in kept}
        # In this order: a kill in between leaves a run that is still refused as changed, and loses replies
        # of none.
        folder.keep_only(order)
        index.forget_cases()
    earlier = folder.manifest.resources.get(_CORRECTED, {}).get("earlier", [])
    folder.manifest.resources[_CORRECTED] = {"earlier": [*earlier, before.sha256]}
    folder.manifest.inputs = now
    folder.save_manifest()
    same = sum(cases.values())
    report(f"the case files have changed in {plural(len(cases) - same, 'case')}; unchanged: {same:,}")
    return set(order)


def _indexed(path: Path) -> RunFolder:
    """The ended run, with an index for its readers; one that was stopped is not held up by that."""
    folder = RunFolder(path)
    if folder.manifest.status == "finished":
        # What fails now is tried again, and reported, when the run is next read.
        with contextlib.suppress(RunError, OSError), contextlib.closing(RunIndex(folder)) as index:
            index.refresh()
    return folder


def _refuse(folder: RunWriter) -> None:
    """Refuse what no session can go on with.

    Raises:
        RunError: The run is a fork, which begins in the middle of its case, or its texts are gone.
    """
    forked = folder.manifest.forked_from
    if forked is not None:
        raise RunError(
            f"{folder.home} is a fork; run the step again from where it began:"
            f" evigraph rerun {quoted(forked.run)} {quoted(forked.case_id)} --step {forked.step}"
        )
    refuse_purged(folder.home)


def reviewed_waiting(folder: RunFolder, report: Report = lambda _: None) -> set[str]:
    """Ids of the cases that wait for a person and have a review of their current labels.

    `report` is called with a line about each review that was given on another result.

    Raises:
        RunError: The file of reviews cannot be read.
    """
    reviews = ReviewedRun(folder.home).counting()
    if not reviews:
        return set()
    waiting = [line for line in folder.cases() if line["status"] == WAITING and line["case_id"] in reviews]
    ready = {line["case_id"] for line in waiting if not is_stale(reviews[line["case_id"]], line)}
    for line in waiting:
        if line["case_id"] not in ready:
            report(f"case {line['case_id']} still waits: its review was given on another result")
    return ready


def _refuse_changes(folder: RunWriter, assembly: Assembly, *, corrected: bool) -> None:
    changed = differences(folder.manifest, assembly.manifest, assembly.system.compared)
    if corrected:
        changed = [name for name in changed if name != CASE_FILES]
    if changed:
        again = f": evigraph retry {folder.home} --corrected" if changed == [CASE_FILES] else ""
        raise RunError(
            f"{folder.home}: changed since this run began: {', '.join(changed)}."
            f" Undo the change, or {'run the changed cases alone' if again else 'start a new run'}{again}"
        )


def _demand_prices(budget: BudgetCaps, manifest: Manifest) -> None:
    """A limit to the cost means nothing for calls without a price.

    Raises:
        RunError: Names the first model that has none.
    """
    if budget.max_cost is None:
        return
    used = {parse_model_name(model.name).identity for model in manifest.models.values()}
    missing = sorted(used - budget.prices.keys())
    if missing:
        raise RunError(f"--max-cost: the price file has no price for {missing[0]!r}; add it under 'models'")


def _refuse_changed_recipe(manifest: Manifest, recipe_name: str | None) -> None:
    """The recipe that is named now, or the file that the run began with, must still say the same."""
    origin = recipe_name or manifest.recipe_origin
    try:
        current = override(load_recipe(origin), manifest.recipe_overrides, origin)
    except RecipeError:
        if recipe_name is not None:
            raise
        # The file that the run began with is gone or broken; the run keeps its own copy.
        return
    # Checked anew, so that fields which the recipe had not when the run began count with their defaults.
    recorded = make_recipe(manifest.recipe, manifest.recipe_origin)
    changed = differing_fields(recorded.model_dump(mode="json"), current.model_dump(mode="json"))
    if changed:
        raise RunError(
            f"recipe {origin} differs from the one that this run began with in: {', '.join(changed)}."
            " Undo the change, or start a new run"
        )


def _new_folder(system: str, manifest: Manifest) -> Path:
    tag = manifest.recipe_sha256[:2] + manifest.inputs.sha256[:2]
    stem = f"{datetime.now().astimezone():%Y-%m-%dT%H-%M}-{system}-{tag}"
    names: Sequence[str] = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(path for path in (Path("out") / name for name in names) if not path.exists())
