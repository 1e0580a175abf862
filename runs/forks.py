"""The forks of a run: run folders of one case each, below the run's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graph.recipe import differing_fields
from graph.system import find_system
from runs.folder import RunFolder
from runs.manifest import Manifest, RunError, recorded_recipe, resource_changes

FORKS = "forks"

Changes = dict[str, tuple[Any, Any]]
"""Values before and after, by name."""


def forks(run: RunFolder) -> list[RunFolder]:
    """The forks of a run that can be read, the oldest first."""
    found = []
    for number in sorted(_numbers(run.path)):
        try:
            found.append(RunFolder(run.path / FORKS / str(number)))
        except RunError:
            # One that is being made, or of a newer version: the run can be read without it.
            continue
    return [fork for fork in found if fork.manifest.forked_from is not None]


def next_number(run: Path) -> int:
    """The number of the next fork."""
    return max(_numbers(run), default=0) + 1


def new_folder(run: Path, number: int) -> Path:
    """Make the folder of a fork, of this number or of the next free one.

    Raises:
        OSError: It cannot be made.
    """
    while True:
        path = run / FORKS / str(number)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return path


def changes(before: Manifest, after: Manifest, prompt_files: Mapping[str, Path]) -> Changes:
    """What a fork does otherwise than its run: recipe values, models, prompts, demonstrations, ranker.

    Prompts are named by their hashes, or by the file that the user gave.
    """
    found: Changes = {}
    # Checked anew, so that fields which the recipe had not when the run began count with their defaults.
    recipe = recorded_recipe(before).model_dump(mode="json")
    for name in differing_fields(recipe, after.recipe):
        found[name] = (_value(recipe, name), _value(after.recipe, name))
    found |= _models(before, after)
    for name in sorted({*before.prompts, *after.prompts}):
        first, second = before.prompts.get(name), after.prompts.get(name)
        if first != second:
            shown = str(prompt_files[name]) if name in prompt_files else _short(second)
            found[f"prompt {name}"] = (_short(first), shown)
    # Equal recipes can differ here: a pool, or the folder of a ranker, is changed in its place.
    for record, field, one, other in resource_changes(before, after, find_system(after.system).compared):
        name = record.replace("_", " ")
        if field == "sha256":
            found[name] = (_short(one), _short(other))
        else:
            found[name if field == "identity" else f"{name} {field}"] = (one, other)
    return found


def _models(before: Manifest, after: Manifest) -> Changes:
    """One entry a role, or one for all where all went from one model to one other."""
    found: Changes = {}
    for role, one in before.models.items():
        other = after.models[role]
        if (one.name, one.revision) != (other.name, other.revision):
            same = one.name == other.name
            pair = (f"{one.name} {one.revision}", f"{other.name} {other.revision}")
            found[f"model of {role}"] = pair if same else (one.name, other.name)
    pairs = set(found.values())
    return {"model": pairs.pop()} if len(pairs) == 1 and len(found) == len(before.models) else found


def _numbers(run: Path) -> list[int]:
    folder = run / FORKS
    return [int(path.name) for path in folder.glob("*") if path.name.isdecimal()] if folder.is_dir() else []


def _value(recipe: Mapping[str, Any], field: str) -> Any:
    value: Any = recipe
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _short(digest: str | None) -> str | None:
    return digest and digest[:12]
