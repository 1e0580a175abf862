"""Run the cells of an experiment in turn over one journal: what two cells share is asked once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cases.load import find_cases
from cases.selection import Selection
from evals.errors import ExperimentError
from evals.experiments.definition import Experiment
from evals.experiments.rankers import RankerPlan
from evals.run_scores import labels_from_answers
from graph.recipe import RecipeError, load_recipe, override
from graph.resource import used_places
from graph.system import find_system
from nodes.evidence.settings import VoteSettings
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.servers import Servers
from runs.execute.sessions import resume, start
from runs.execute.watcher import Watcher
from runs.record.folder import CALLS, MANIFEST, RunFolder
from serving.journal.journal import Journal
from serving.protocol.model_name import assign_roles
from storage.files import json_bytes, write_atomically

PLAN = "experiment.json"


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """One cell ready to run.

    Attributes:
        folder: Of its run, below the experiment's folder.
        cases_sha256: Digest of its case files and keys.
        tuning: Whether it runs on the cases that thresholds are chosen on.
    """

    name: str
    folder: Path
    request: Request
    cases_sha256: str
    tuning: bool = False

    def identity(self) -> dict[str, Any]:
        """Values that may not change between two starts of an experiment."""
        return {
            "recipe": self.request.recipe.model_dump(mode="json"),
            "models": {role: str(name) for role, name in self.request.models.items()},
            "cases": self.cases_sha256,
            "limit": self.request.selection.limit,
        }


@dataclass(frozen=True, slots=True)
class Cells:
    """The runs of an experiment that are finished, by the name of their cell."""

    reported: Mapping[str, RunFolder]
    tuning: Mapping[str, RunFolder]


def plan(
    experiment: Experiment,
    out: Path,
    models: Sequence[str],
    limit: int | None,
    everywhere: Mapping[str, Any] = MappingProxyType({}),
) -> list[PlannedCell]:
    """Check the recipe and the model strings of every run of an experiment before anything is asked.

    `models` are for cells that name none, instead of the experiment's; `everywhere` has recipe values of all
    cells, by dotted field.

    Raises:
        RecipeError: A cell's recipe cannot be read, or lacks a field that the cell sets.
        ModelError: A cell's model is unusable, or it names none.
        InputError: The case or key files.
        ExperimentError: No cases are named, or no cell has a use for a place.
    """
    runs = {name: cell for name, cell in experiment.all_cells().items() if cell.ranker is None}
    if not runs:
        return []
    if not experiment.cases:
        raise ExperimentError("the experiment names no case files; give them: --cases FILE")
    cases_sha256 = find_cases(experiment.cases, experiment.key).check().sha256
    tuning_sha256 = ""
    if experiment.tune_on:
        tuning_sha256 = find_cases(experiment.tune_on, experiment.tune_key).check().sha256
    planned = []
    unused = dict(experiment.places)
    for name, cell in runs.items():
        origin = cell.recipe or experiment.recipe
        try:
            loaded = load_recipe(origin)
            overrides = {**cell.set, **everywhere}
            recipe = override(loaded, overrides, origin)
        except RecipeError as error:
            raise RecipeError(f"cell {name!r}: {error}") from None
        used = used_places(find_system(recipe.system).resources, recipe)
        unused = {place: path for place, path in unused.items() if place not in used}
        request = Request(
            recipe=recipe,
            recipe_origin=origin,
            inputs=experiment.cases,
            keys=() if labels_from_answers(recipe.system) else experiment.key,
            models=assign_roles(list(cell.model or models or experiment.model), loaded.models),
            overrides=overrides,
            places={place: path for place, path in experiment.places.items() if place in used},
            selection=Selection(limit=limit),
        )
        planned.append(PlannedCell(name, out / "cells" / name, request, cases_sha256))
        votes = recipe.find_section(VoteSettings)
        if experiment.tune_on and votes is not None and votes.all_votes > 1:
            elsewhere = replace(request, inputs=experiment.tune_on, keys=experiment.tune_key)
            folder = out / "tuning" / name
            planned.append(PlannedCell(name, folder, elsewhere, tuning_sha256, tuning=True))
    if unused:
        place, path = next(iter(unused.items()))
        raise ExperimentError(f"no cell of the experiment has a use for {place} {path}; leave it out")
    return planned


async def run_cells(
    planned: Sequence[PlannedCell], out: Path, options: Options, *, stop: asyncio.Event, watcher: Watcher
) -> Cells:
    """Run or resume each cell; those that are finished stay as they are.

    Raises:
        InputError, ModelError, RunError: As for any run.
    """
    if not planned:
        return Cells({}, {})
    journal = out / CALLS
    Journal(journal).close()
    reported: dict[str, RunFolder] = {}
    tuning: dict[str, RunFolder] = {}
    with Servers(watcher.notify, stop) as servers:
        for number, cell in enumerate(planned, 1):
            if stop.is_set():
                break
            place = " (tuning)" if cell.tuning else ""
            watcher.notify(f"cell {number} of {len(planned)}: {cell.name}{place}")
            run = await run_cell(cell, options, journal, servers, stop, watcher)
            if run.manifest.status == "finished":
                (tuning if cell.tuning else reported)[cell.name] = run
            elif run.manifest.sessions[-1].stopped_by is not None:
                watcher.notify(f"stopped: {run.manifest.sessions[-1].stopped_by}")
                break
    return Cells(reported, tuning)


async def run_cell(
    cell: PlannedCell,
    options: Options,
    journal: Path,
    servers: Servers,
    stop: asyncio.Event,
    watcher: Watcher,
) -> RunFolder:
    """Start or continue a cell; a finished one stays unchanged.

    Raises:
        InputError, ModelError, RecipeError, RunError: As for any run.
    """
    if not (cell.folder / MANIFEST).is_file():
        cell.folder.parent.mkdir(parents=True, exist_ok=True)
        return await start(
            cell.request, cell.folder, options, stop=stop, watcher=watcher, servers=servers, journal=journal
        )
    run = RunFolder(cell.folder)
    if run.manifest.status == "finished":
        return run
    return await resume(
        cell.folder,
        replace(options, command="resume"),
        recipe=None,
        models=cell.request.models,
        stop=stop,
        watcher=watcher,
        servers=servers,
    )


def keep_plan(path: Path, planned: Sequence[PlannedCell], rankers: RankerPlan | None = None) -> None:
    """Write the plan of the cells. New cells may be added; existing ones may not change.

    Raises:
        ExperimentError: A cell has changed since the experiment began.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    current = {("tuning/" if cell.tuning else "") + cell.name: cell.identity() for cell in planned}
    if rankers is not None:
        current |= rankers.identities()
    recorded: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    for name in current.keys() & recorded.keys():
        changed = [field for field in current[name] if current[name][field] != recorded[name].get(field)]
        if changed:
            raise ExperimentError(
                f"{path.parent}: cell {name!r} has changed since this experiment began:"
                f" {', '.join(changed)}. Undo the change, rename the cell, or give another --out"
            )
    write_atomically(path, [json_bytes({**recorded, **current}, indent=2)])
