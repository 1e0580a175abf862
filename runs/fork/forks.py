"""The forks of a run: where one begins, and their folders of one case each below the run's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graph.recipe import differing_fields
from graph.system import find_system
from runs.record.folder import RunFolder
from runs.record.manifest import Manifest, RunError, recorded_recipe, resource_changes
from runs.record.trace_file import Line
from storage.private import private_folder


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Node and case that run again.

    Attributes:
        step: Its step in the trace; the first one of the node, unless the user named another.
        alone: Whether this execution alone runs again, or with it those of the same node that began
            together with it, such as the reflections of all votes.
    """

    node: str
    step: int
    alone: bool


def find_fork_point(
    trace: Sequence[Line], nodes: Iterable[str], node: str | None, step: int | None
) -> ForkPoint:
    """Find it in the trace of a case.

    `trace` is without its end line. Without a `step`, those executions of the node run again that began
    first.

    Raises:
        RunError: The node did not run, is unknown, or is another one at that step.
    """
    if node is None and step is None:
        raise RunError(f"name the node that runs again; {_ran(trace)}")
    if node is not None and all(line["node"] != node for line in trace):
        raise RunError(_not_run(trace, nodes, node))
    if step is None:
        first = next(line["step"] for line in trace if line["node"] == node)
        return ForkPoint(str(node), first, alone=False)
    found = next((line["node"] for line in trace if line["step"] == step), None)
    if found is None:
        raise RunError(f"step {step} not found; {_ran(trace)}")
    if node is not None and found != node:
        steps = ", ".join(str(line["step"]) for line in trace if line["node"] == node)
        raise RunError(f"step {step} is {found}; {node} ran at {steps}")
    return ForkPoint(found, step, alone=True)


def _not_run(trace: Sequence[Line], nodes: Iterable[str], node: str) -> str:
    known = {name for name in nodes if not name.startswith("__")}
    if node in known:
        return f"{node} did not run on this case; {_ran(trace)}"
    ran = {line["node"] for line in trace}
    near = difflib.get_close_matches(node, ran, n=1) or difflib.get_close_matches(node, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no node {node!r}; {hint}{_ran(trace)}"


def _ran(trace: Sequence[Line]) -> str:
    if not trace:
        return "no node ran on this case"
    steps: dict[str, list[str]] = {}
    for line in trace:
        steps.setdefault(line["node"], []).append(str(line["step"]))
    return "what ran, with its steps: " + ", ".join(
        f"{node} {' '.join(numbers)}" for node, numbers in steps.items()
    )


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
            private_folder(path.parent)
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def changes(before: Manifest, after: Manifest, prompt_files: Mapping[str, Path]) -> Changes:
    """Differences between a fork and its run: recipe values, models, prompts, demonstrations, ranker.

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
