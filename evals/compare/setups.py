"""In what two runs were set up differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from graph.recipe import differing_fields
from runs.manifest import Manifest
from serving.model_name import parse_model_name

_NONE = "-"
_PLACES = ("folder", "path")
"""Where a resource lies is no part of what it is."""


class Setting(NamedTuple):
    """A setting in both runs, as text."""

    name: str
    first: str
    second: str


def differing_settings(first: Manifest, second: Manifest) -> list[Setting]:
    """Recipe fields, models, prompts, demonstrations and versions that differ."""
    fields = differing_fields(first.recipe, second.recipe)
    return [
        *(Setting(name, _field(first.recipe, name), _field(second.recipe, name)) for name in fields),
        *_unequal(_others(first), _others(second)),
    ]


def _others(manifest: Manifest) -> dict[str, str]:
    found = {"system": manifest.system, "evigraph": manifest.evigraph}
    found |= {
        f"model of {role}": _model(model.name, model.revision) for role, model in manifest.models.items()
    }
    found |= {f"prompt {name}": sha256[:12] for name, sha256 in manifest.prompts.items()}
    for resource, record in manifest.resources.items():
        found |= {
            _named(resource, name): _short(name, value)
            for name, value in record.items()
            if value is not None and name not in _PLACES
        }
    found |= {f"version of {name}": version for name, version in manifest.versions.items()}
    return found


def _named(resource: str, field: str) -> str:
    name = resource.replace("_", " ")
    return name if field == "identity" else f"{name} {field}"


def _short(name: str, value: object) -> str:
    return str(value)[:12] if name.endswith("sha256") else str(value)


def _model(name: str, revision: str) -> str:
    # The address of a server is no part of what it answers.
    identity = parse_model_name(name).identity
    return f"{identity} {revision[:12]}" if revision else identity


def _unequal(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Setting]:
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name, _NONE), second.get(name, _NONE)
        if one != other:
            yield Setting(name, one, other)


def _field(recipe: Mapping[str, Any], name: str) -> str:
    value: Any = recipe
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return _NONE if value is None else _short(name, value)
