"""In what two runs were set up differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from graph.recipe import differing_fields
from runs.manifest import Manifest
from serving.model_name import parse_model_name

_NONE = "-"


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
    pool = manifest.demonstrations
    found = {"system": manifest.system, "evigraph": manifest.evigraph}
    found |= {
        f"model of {role}": _model(model.name, model.revision) for role, model in manifest.models.items()
    }
    found |= {f"prompt {name}": sha256[:12] for name, sha256 in manifest.prompts.items()}
    found["ranker"] = manifest.ranker.identity if manifest.ranker else _NONE
    if manifest.retrieval is not None:
        found |= {name: str(value) for name, value in manifest.retrieval if value is not None}
    found["demonstrations"] = f"{pool.count} cases, {pool.embedder}, {pool.sha256[:12]}" if pool else _NONE
    found |= {f"version of {name}": version for name, version in manifest.versions.items()}
    return found


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
    return _NONE if value is None else str(value)
