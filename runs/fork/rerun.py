"""One case again from one of its nodes: a fork, in a run folder of its own beside the original."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cases.records import Case
from graph.recipe import Recipe, make_recipe, override
from graph.system import find_system
from prompts import load_prompts, replace_prompts
from runs.execute.assemble import assembled, recorded_request
from runs.execute.servers import Servers
from runs.execute.watcher import Watcher
from runs.fork.fork_run import run_fork
from runs.fork.forks import FORKS, ForkPoint, changes, find_fork_point, new_folder, next_number
from runs.fork.recorded import replay_run
from runs.record.folder import RunFolder, RunWriter
from runs.record.manifest import BudgetCaps, ForkedFrom, Manifest, RunError, quoted
from runs.record.purged import refuse_purged
from serving.protocol.limits import Limits
from serving.protocol.model_name import ModelName, Role, recorded_name
from storage.disks import writable


@dataclass(frozen=True, slots=True)
class Rerun:
    """What the user wants to see once more, and what is to be otherwise this time.

    Attributes:
        case_id: A case that has ended in the run.
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

    What ran before the node, and beside it, is taken over as it was; the node and all that follows run
    again and ask anew. A fork without any change takes another seed than its run: the same seed would get
    the same replies.

    Raises:
        RunError: The node did not run, the original is a fork, its case files have changed, or its journal
            no longer holds what the node's input came from.
        InputError, RecipeError, PromptError, ModelError: Before anything is asked.
    """
    original = run.manifest
    _refuse_fork(run)
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
        ready = assembled(request, watcher.notify, servers, limits, probing=probe, recorded=models)
        async with ready as assembly:
            if original.inputs.sha256 != assembly.manifest.inputs.sha256:
                raise RunError(
                    f"{run.path}: the case files or keys have changed since this run began; put them back, or"
                    " start a new run"
                )
            case = next((one for one in assembly.source if one.id == wanted.case_id), None)
            if not isinstance(case, Case):
                raise RunError(f"case {wanted.case_id} cannot be read, so there is nothing to run again")
            inherited = await replay_run(run, recipe, assembly, case, point, recorded, watcher.notify)
            manifest = _fork_manifest(run, assembly.manifest, point, wanted)
            with RunWriter.create(new_folder(run.path, number), manifest) as folder:
                await run_fork(folder, run, assembly, inherited, recorded, case, limits, stop, watcher)
    return RunFolder(folder.path)


def _refuse_fork(run: RunFolder) -> None:
    forked = run.manifest.forked_from
    if forked is not None:
        raise RunError(
            f"{run.path} is a fork itself, and a fork of a fork is not possible; fork the original:"
            f" evigraph rerun {quoted(forked.run)} {quoted(forked.case_id)} --from NODE"
        )


def _demand_writable(run: Path) -> None:
    """Before anything is asked: a fork is a folder below its run."""
    forks = run / FORKS
    if not writable(forks if forks.is_dir() else run):
        raise RunError(
            f"{run}: cannot be written, and a fork is written into its folder {FORKS}; copy it to a disk of"
            f" your own first: cp -r {quoted(run)} FOLDER"
        )


def _alters(manifest: Manifest, recipe: Recipe, changed: Recipe, wanted: Rerun) -> bool:
    """Whether the fork does anything otherwise: by the user's wish, or as a prompt was edited meanwhile."""
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
