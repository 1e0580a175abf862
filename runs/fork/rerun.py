"""Rerun of a case from one of its nodes: a fork, in a new run folder next to the original."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cases.records import Case
from cases.texts import quoted
from graph.recipe import Recipe, make_recipe, override
from graph.system import find_system
from nodes.core.failure import NodeFailure, as_failure
from prompts import load_prompts, replace_prompts
from runs.execute.assemble import Assembly, assemble, closed_at_end, recorded_request
from runs.execute.batch import Options, run_batch
from runs.execute.case_run import CaseResult, case_config, case_line, end_line
from runs.execute.servers import Servers
from runs.execute.watcher import Watcher
from runs.fork.forks import FORKS, ForkPoint, changes, find_fork_point, new_folder, next_number
from runs.fork.replay import Inherited, replay_run
from runs.record.audit import record_if_possible
from runs.record.folder import CALLS, Line, RunFolder, RunWriter
from runs.record.manifest import BudgetCaps, ForkedFrom, Manifest, RunError
from runs.record.purged import refuse_purged
from runs.record.trace_file import CaseTrace
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.model_name import ModelName, Role, recorded_name
from serving.requests.client import ModelClient
from storage.disks import writable


@dataclass(frozen=True, slots=True)
class Rerun:
    """The user's request: the node to rerun, and the changes.

    Attributes:
        node: The node that the fork begins with; None where `step` says enough.
        step: A certain execution of it, as the trace counts them.
        models: Of all roles, None for those of the run.
        overrides: New values of the recipe by dotted field.
        prompt_files: Files that replace prompts, by name; without another version, those of the run stay too.
    """

    case_id: str
    node: str | None = None
    step: int | None = None
    models: Mapping[Role, ModelName] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    prompt_files: Mapping[str, Path] = field(default_factory=dict)


async def rerun(
    run: RunFolder,
    wanted: Rerun,
    limits: Limits,
    *,
    probe: bool,
    stop: asyncio.Event,
    watcher: Watcher,
) -> RunFolder:
    """Fork a case. The original is only read.

    Steps before the node, and in parallel to it, are inherited unchanged; the node and its successors run
    again with new requests. A fork without any change uses another seed than its run: the same seed would get
    the same replies.

    Raises:
        RunError: The node did not run, the original is a fork, its case files have changed, or its journal no
            longer holds the source of the node's input.
        InputError, RecipeError, PromptError, ModelError: Before any request.
    """
    original = run.manifest
    if (forked := original.forked_from) is not None:
        raise RunError(
            f"{run.path} is a fork itself, and a fork of a fork is not possible; fork the original:"
            f" evigraph rerun {quoted(forked.run)} {quoted(forked.case_id)} --from NODE"
        )
    refuse_purged(run.path, wanted.case_id)
    _demand_writable(run.path)
    run.require_case(wanted.case_id)
    # Without its end line.
    recorded = run.trace(wanted.case_id)[:-1]
    recipe = make_recipe(original.recipe, original.recipe_origin)
    names = [node.name for node in find_system(recipe.system).nodes]
    point = find_fork_point(recorded, names, wanted.node, wanted.step)
    number = next_number(run.path)
    overrides = dict(wanted.overrides)
    if "prompts" not in overrides:
        wanted = replace(wanted, prompt_files={**original.prompt_files, **wanted.prompt_files})
    changed = override(recipe, overrides, original.recipe_origin)
    if not _alters(original, recipe, changed, wanted):
        overrides = {"seed": recipe.seed + number}
        changed = override(recipe, overrides, original.recipe_origin)
    request = replace(
        recorded_request(original, wanted.models, changed),
        overrides={**original.recipe_overrides, **overrides},
        prompt_files=wanted.prompt_files,
    )
    models = _unchanged_models(original, wanted)
    with Servers(watcher.notify, stop) as servers:
        assembling = assemble(request, watcher.notify, servers, limits, probing=probe, recorded=models)
        async with closed_at_end(assembling) as assembly:
            if original.inputs.sha256 != assembly.manifest.inputs.sha256:
                raise RunError(
                    f"{run.path}: the case files or keys have changed since this run began; put them back, or"
                    " start a new run"
                )
            case = next((one for one in assembly.source if one.id == wanted.case_id), None)
            # One that cannot be read has no step to run again.
            assert isinstance(case, Case)
            inherited = await replay_run(run, recipe, assembly, case, point, recorded, watcher.notify)
            manifest = _fork_manifest(run, assembly.manifest, point, wanted)
            with RunWriter.create(new_folder(run.path, number), manifest) as folder:
                _copy_calls(run, folder, [recorded[step] for step in inherited.steps])
                record_if_possible(run.path, "forked", case=case.id, fork=folder.path.name)
                await run_batch(
                    folder,
                    replace(assembly, source=replace(assembly.source, selection=manifest.selection)),
                    Options("rerun", limits=limits),
                    skipped=(),
                    stop=stop,
                    watcher=watcher,
                    run_case=partial(_run_case, assembly, inherited, recorded),
                )
    return RunFolder(folder.path)


def _demand_writable(run: Path) -> None:
    """Before anything is asked: a fork is a folder below its run."""
    forks = run / FORKS
    if not writable(forks if forks.is_dir() else run):
        raise RunError(
            f"{run}: cannot be written, and a fork is written into its folder {FORKS}; copy it to a disk of"
            f" your own first: cp -r {quoted(run)} FOLDER"
        )


def _alters(manifest: Manifest, recipe: Recipe, changed: Recipe, wanted: Rerun) -> bool:
    """Whether the fork differs: by the user's changes, or because a prompt was edited meanwhile."""
    names = {role: recorded_name(model.name) for role, model in manifest.models.items()}
    contracts = find_system(changed.system).contracts
    prompts = load_prompts(changed.prompts, contracts)
    hashes = replace_prompts(prompts, wanted.prompt_files, contracts).hashes
    return (
        changed != recipe
        or (wanted.models is not None and dict(wanted.models) != names)
        or any(hashes.get(name) != sha256 for name, sha256 in manifest.prompts.items())
    )


def _unchanged_models(manifest: Manifest, wanted: Rerun) -> dict[Role, Any]:
    """Those that keep sending a seed or none, as in the run."""
    given = wanted.models or {}
    return {
        role: model
        for role, model in manifest.models.items()
        if role not in given or given[role].identity == recorded_name(model.name).identity
    }


def _fork_manifest(run: RunFolder, current: Manifest, point: ForkPoint, wanted: Rerun) -> Manifest:
    forked = ForkedFrom(
        run=str(run.path.resolve()),
        case_id=wanted.case_id,
        node=point.node,
        step=point.step,
        changes=changes(run.manifest, current, wanted.prompt_files),
    )
    return current.model_copy(
        update={
            "forked_from": forked,
            "inputs": current.inputs.model_copy(update={"cases": 1}),
            # Its limits are those of a batch; its prices are as true for one case.
            "budget": BudgetCaps(prices=run.manifest.budget.prices),
        }
    )


def _copy_calls(run: RunFolder, fork: RunFolder, lines: Sequence[Line]) -> None:
    """Prompts and replies of the inherited steps, so that the fork can be read and moved by itself."""
    keys = (call["key"] for line in lines for call in line["calls"])
    with (
        contextlib.closing(Journal(run.path / CALLS, read_only=True)) as source,
        contextlib.closing(Journal(fork.path / CALLS)) as target,
    ):
        source.copy_calls(keys, target)


async def _run_case(
    assembly: Assembly, inherited: Inherited, recorded: Sequence[Line], case: Case, client: ModelClient
) -> CaseResult:
    graph = assembly.system.build(checkpointer=inherited.checkpointer)
    context = assembly.context(case, client)
    trace = CaseTrace(case.id, assembly.system.successors)
    for event in inherited.events:
        trace.record(event["payload"], event["step"])
    config = case_config(case.id)
    state: Any = (await graph.aget_state(config)).values
    failure: NodeFailure | None = None
    stream: AsyncIterator[Any] = graph.astream(None, config, context=context, stream_mode=["debug", "values"])
    try:
        async for mode, event in stream:
            if mode == "values":
                state = event
            elif event["type"] != "checkpoint" and event["payload"]["id"] not in inherited.tasks:
                trace.record(event["payload"], event["step"])
    except Exception as error:
        # The border of a case, as in a batch.
        failure = as_failure(error)
    lines = _after(inherited.steps, recorded, trace.lines(failure))
    line = case_line(case.id, case.sentence_ids, state, lines, failure, assembly.system.results)
    end = end_line(line, len(lines), trace)
    end["seconds"] = round(end["seconds"] + _end_of(lines), 4)
    return CaseResult(line, [*lines, end])


def _after(steps: Sequence[int], recorded: Sequence[Line], lines: Sequence[Line]) -> list[Line]:
    """The inherited steps as the original has them, with the route from there, and the new ones after them.

    New steps begin when the inherited ones had ended.
    """
    kept = [
        {**recorded[step], "step": number, "next": lines[number]["next"], "inherited": True}
        for number, step in enumerate(steps)
    ]
    end = _end_of(kept)
    new = [{**line, "started": round(line["started"] + end, 4)} for line in lines[len(steps) :]]
    return [*kept, *new]


def _end_of(lines: Sequence[Line]) -> float:
    """When the last of the inherited steps had ended, in seconds since its case began."""
    inherited = (line for line in lines if line.get("inherited"))
    return max((line["started"] + line["seconds"] for line in inherited), default=0.0)
