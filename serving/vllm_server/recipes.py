"""Serve recipes: vLLM's own long flags in a YAML file, which `vllm serve --config` reads as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from math import prod

from cases.definitions import Definition, DefinitionKind
from serving.protocol.errors import ModelError
from serving.vllm_server.find import Build

Flag = bool | int | float | str | list[str | int] | dict[str, object]

_KIND = DefinitionKind(
    "serve recipe", "recipes", resources.files("serving.vllm_server").joinpath("recipes"), ModelError
)
_PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


@dataclass(frozen=True, slots=True)
class ServeRecipe:
    """Flags for one model on one kind of machine.

    Attributes:
        name: Name of a packaged recipe, or the path of a file.
        summary: The file's first comment.
        flags: vLLM's long flags without their dashes.
    """

    name: str
    summary: str
    flags: Mapping[str, Flag]
    is_packaged: bool = False

    @property
    def build(self) -> Build | None:
        """The build of vLLM that a packaged recipe is for, by its name; None for a file of the user's."""
        if not self.is_packaged:
            return None
        return "cpu" if self.name.endswith("-cpu") else "gpu"

    @property
    def model(self) -> str | None:
        """The recipe's own model: a registered name or a hub id."""
        served = self.flags.get("model")
        return served if isinstance(served, str) else None

    @property
    def gpus(self) -> int:
        """How many GPUs the flags ask for; 0 on a CPU."""
        if self.build == "cpu":
            return 0
        sizes = (self.flags.get(flag, 1) for flag in _PARALLEL)
        return prod(size for size in sizes if isinstance(size, int))


def packaged_recipes() -> list[ServeRecipe]:
    """The recipes that come with the package, by name."""
    return [load_serve_recipe(name) for name in _KIND.packaged_names()]


def packaged_recipe(model: str, build: Build, gpus: int) -> ServeRecipe | None:
    """The packaged recipe for exactly this model, build and number of GPUs, if there is one."""
    wanted = gpus if build == "gpu" else 0
    found = (recipe for recipe in packaged_recipes() if recipe.model == model and recipe.build == build)
    return next((recipe for recipe in found if recipe.gpus == wanted), None)


def load_serve_recipe(name_or_path: str) -> ServeRecipe:
    """Load a packaged recipe by its name, or a file of the user's.

    Raises:
        ModelError: It does not exist, is not YAML, or does not map flags to values.
    """
    read = _KIND.read(name_or_path)
    first = read.text.partition("\n")[0]
    summary = first.removeprefix("#").strip() if first.startswith("#") else ""
    return ServeRecipe(name_or_path, summary, _flags(read), name_or_path in _KIND.packaged_names())


def render_flags(flags: Mapping[str, Flag]) -> list[str]:
    """Command-line arguments: `true` is the bare flag, `false` its `--no-` form, a mapping is JSON."""
    arguments: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            arguments.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, list):
            arguments += [f"--{name}", *map(str, value)]
        else:
            arguments += [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return arguments


def _flags(read: Definition) -> dict[str, Flag]:
    for name, value in read.values.items():
        if not isinstance(name, str) or name.startswith("-"):
            raise _KIND.fault(read.origin, f"write flag {name!r} by its long name without dashes")
        if not isinstance(value, bool | int | float | str | list | dict):
            raise _KIND.fault(read.origin, f"flag {name!r} has no value that a flag can take")
    return {name.replace("_", "-"): value for name, value in read.values.items()}
