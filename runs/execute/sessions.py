"""Start, resume and retry: what each runs, and when each is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from cases.texts import plural
from graph.recipe import RecipeError, differing_fields, load_recipe, make_recipe, override
from runs.execute.assemble import Assembly, Report, Request, assemble, close_backends
from runs.execute.batch import Options, run_batch
from runs.execute.servers import Servers
from runs.execute.watcher import Watcher
from runs.fork.recorded import recorded_places
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
    differences,
    quoted,
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

    Args:
        request: What to run.
        out: The run's folder.
        options: How to run.
        stop: Ends the run early, resumable.
        watcher: Shows how it goes.
        servers: Started already, and left running for further runs.
        journal: A call journal to share with other runs; the folder links to it.

    Raises:
        InputError, RecipeError, PromptError, ModelError, RunError: Before anything is asked.
    """
    if out is not None:
        # Before weights are loaded and servers are probed, which may take minutes.
        demand_empty(out)
    if options.on is not None:
        demand_usable(request.models.values())
    with _servers(servers, watcher, stop) as started:
        assembly = await assemble(
            request,
            watcher.notify,
            started,
            probing=options.probe,
            max_retries=options.limits.max_retries,
            limit_s=options.limits.timeout,
        )
        async with contextlib.AsyncExitStack() as ending:
            try:
                _demand_prices(options.budget, assembly.manifest)
                cluster = await ending.enter_async_context(
                    _cluster(assembly, BudgetCaps(), options, stop, watcher)
                )
                path = out or _new_folder(request.recipe.system, assembly.manifest)
                folder = await ending.enter_async_context(
                    writing(path, options.scratch, watcher.notify, assembly.manifest)
                )
            except BaseException:
                await close_backends(assembly.backends.values())
                raise
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

    Calls in the journal are replayed.

    Args:
        path: The run's folder.
        options: How to run.
        recipe: Has to be the run's, where it is given.
        models: Addresses that are new.
        stop: Ends the session early, resumable.
        watcher: Shows how it goes.
        servers: Started already, and left running for further runs.
        only_reviewed: Leave the cases that have not ended for another session.

    Raises:
        RunError: Something that shapes results has changed since the run began, or the run is damaged.
    """
    async with contextlib.AsyncExitStack() as ending:
        folder = await ending.enter_async_context(writing(path, options.scratch, watcher.notify))
        options = options.continuing(folder.manifest)
        started = ending.enter_context(_servers(servers, watcher, stop))
        _refuse_fork(folder)
        _refuse_stored(folder)
        refuse_purged(folder.home)
        demand_whole(folder)
        assembly = await _assemble_again(folder, recipe, models, watcher.notify, started, options)
        reviewed = reviewed_waiting(folder, watcher.notify)
        async with _cluster(assembly, folder.manifest.budget, options, stop, watcher) as cluster:
            await run_batch(
                folder,
                assembly,
                options,
                skipped=set(folder.statuses()) - reviewed,
                stop=stop,
                watcher=watcher,
                only=reviewed if only_reviewed else None,
                cluster=cluster,
            )
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

    Args:
        path: The run's folder.
        options: How to run.
        models: Addresses that are new.
        stop: Ends the session early, resumable.
        watcher: Shows how it goes.
        corrected: Take the case and key files as they are now, and run those cases too that have changed.
        impaired: Run those cases too that ended although something that was asked for them had failed. What
            was answered is replayed; one that fails altogether stays as it was.

    Raises:
        RunError: Something that shapes results has changed since the run began, or the run is damaged.
    """
    async with contextlib.AsyncExitStack() as ending:
        folder = await ending.enter_async_context(writing(path, options.scratch, watcher.notify))
        options = options.continuing(folder.manifest)
        servers = ending.enter_context(Servers(watcher.notify, stop))
        _refuse_fork(folder)
        _refuse_stored(folder)
        refuse_purged(folder.home)
        demand_whole(folder)
        assembly = await _assemble_again(
            folder, None, models, watcher.notify, servers, options, corrected=corrected
        )
        await _forget_failures(folder, assembly, options, watcher.notify)
        kept = {case_id for case_id, status in folder.statuses().items() if not status.startswith(FAILED)}
        kept -= reviewed_waiting(folder, watcher.notify)
        if impaired:
            kept -= folder.impaired(assembly.system.impairments)
        if corrected:
            kept = _take_corrected(folder, assembly, kept, watcher.notify)
        async with _cluster(assembly, folder.manifest.budget, options, stop, watcher) as cluster:
            await run_batch(
                folder, assembly, options, skipped=kept, stop=stop, watcher=watcher, cluster=cluster
            )
    return _indexed(path)


async def _forget_failures(folder: RunWriter, assembly: Assembly, options: Options, report: Report) -> None:
    """Have all asked for again that failed, but for what a lost batch holds that has come back."""
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
    """Make the files of now those of the run, and drop what it has of cases that they have otherwise.

    Returns:
        Those of them that are as they were, with what the key says of them. Without the texts of before
        that is none: then every case runs again, on replayed calls where its prompts are the same.
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


def _refuse_fork(folder: RunWriter) -> None:
    """A fork begins in the middle of its case, with what another run has left there.

    Raises:
        RunError: Says how to ask again.
    """
    forked = folder.manifest.forked_from
    if forked is not None:
        raise RunError(
            f"{folder.home} is a fork; run the step again from where it began:"
            f" evigraph rerun {quoted(forked.run)} {quoted(forked.case_id)} --step {forked.step}"
        )


def _refuse_stored(folder: RunWriter) -> None:
    """The calls of an unfinished run in a database are not in its folder, and would be paid for again.

    Raises:
        RunError: Names the database.
    """
    store = folder.manifest.store
    if store is not None and folder.manifest.status != "finished":
        raise RunError(f"{folder.home}: an earlier version keeps this run in {store}; finish it there")


def reviewed_waiting(folder: RunFolder, report: Report = lambda _: None) -> set[str]:
    """Ids of the cases that wait for a person and have a review of what they wait with.

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


@contextlib.asynccontextmanager
async def _cluster(
    assembly: Assembly, recorded: BudgetCaps, options: Options, stop: asyncio.Event, watcher: Watcher
) -> AsyncIterator[RayCases | None]:
    """The workers that run the cases, where the user names a cluster.

    Raises:
        RunError: It cannot be used.
    """
    if options.on is None:
        yield None
        return
    async with contextlib.AsyncExitStack() as ending:
        try:
            work = Work.of(assembly, options.limits, recorded.replaced_by(options.budget))
            cases = await ending.enter_async_context(cases_on_ray(options.on, work, stop, watcher.notify))
        except BaseException:
            await close_backends(assembly.backends.values())
            raise
        yield cases


def _servers(
    given: Servers | None, watcher: Watcher, stop: asyncio.Event
) -> contextlib.AbstractContextManager[Servers]:
    """Servers of this run alone, or those that are given, which it does not end."""
    return Servers(watcher.notify, stop) if given is None else contextlib.nullcontext(given)


async def _assemble_again(
    folder: RunWriter,
    recipe_name: str | None,
    models: Mapping[Role, ModelName] | None,
    report: Report,
    servers: Servers,
    options: Options,
    *,
    corrected: bool = False,
) -> Assembly:
    """What the run was made of, made ready once more; the addresses of its models may be new."""
    request = _recorded_request(folder.manifest, recipe_name, models)
    if options.batches.online:
        # The recorded names stay, so that the next session sends batches again.
        names = {role: replace(name, batched=False) for role, name in request.models.items()}
        request = replace(request, models=names)
    if options.on is not None:
        demand_usable(request.models.values())
    assembly = await assemble(
        request,
        report,
        servers,
        probing=options.probe,
        max_retries=options.limits.max_retries,
        limit_s=options.limits.timeout,
        recorded=folder.manifest.models,
    )
    try:
        changed = differences(folder.manifest, assembly.manifest, assembly.system.compared)
        if corrected:
            changed = [name for name in changed if name != CASE_FILES]
        if changed:
            again = f": evigraph retry {folder.home} --corrected" if changed == [CASE_FILES] else ""
            raise RunError(
                f"{folder.home}: changed since this run began: {', '.join(changed)}."
                f" Undo the change, or {'run the changed cases alone' if again else 'start a new run'}{again}"
            )
        if not options.batches.online:
            folder.manifest.models = assembly.manifest.models
        folder.manifest.policies = assembly.manifest.policies
        folder.manifest.hosted = assembly.manifest.hosted
        _demand_prices(folder.manifest.budget.replaced_by(options.budget), folder.manifest)
    except BaseException:
        await close_backends(assembly.backends.values())
        raise
    return assembly


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


def recorded_models(manifest: Manifest) -> dict[Role, str]:
    """The model strings of a run by role."""
    return {role: model.name for role, model in manifest.models.items()}


def _recorded_request(
    manifest: Manifest, recipe_name: str | None, models: Mapping[Role, ModelName] | None
) -> Request:
    recorded = make_recipe(manifest.recipe, manifest.recipe_origin)
    _refuse_changed_recipe(manifest, recipe_name)
    return Request(
        recipe=recorded,
        recipe_origin=manifest.recipe_origin,
        inputs=tuple(manifest.inputs.case_files),
        keys=tuple(manifest.inputs.key_files),
        models=models or {role: parse_model_name(name) for role, name in recorded_models(manifest).items()},
        overrides=manifest.recipe_overrides,
        places=recorded_places(manifest, recorded),
        selection=manifest.inputs.selection,
        prompt_files=manifest.prompt_files,
        policies=manifest.policies,
        hosted=manifest.hosted,
    )


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
