"""A reply schema as a provider's strict mode accepts it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from serving.reply import JsonSchema

_DATA = ("enum", "const", "required", "default", "examples")
"""Keywords whose value is no schema."""


def without_keywords(schema: JsonSchema, keywords: Collection[str]) -> JsonSchema:
    """A schema without some keywords: strict modes refuse those that they cannot hold a reply to.

    What is left out binds the model no longer; the parser still checks it.
    """
    return {name: _part(name, value, keywords) for name, value in schema.items() if name not in keywords}


def _part(name: str, value: Any, keywords: Collection[str]) -> Any:
    if name in _DATA:
        return value
    if name in ("properties", "$defs") and isinstance(value, dict):
        # These keys are the user's names, not keywords.
        return {key: _part("", part, keywords) for key, part in value.items()}
    if isinstance(value, dict):
        return without_keywords(value, keywords)
    if isinstance(value, list):
        return [_part("", part, keywords) for part in value]
    return value
