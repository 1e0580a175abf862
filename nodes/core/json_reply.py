"""Replies in JSON: the schema of an object, the words and ids that it may name, faults to be quoted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from serving.protocol.errors import InvalidReply
from serving.protocol.reply import JsonSchema

_MAX_LISTED = 12
_SLACK_TOKENS = 32

Word = TypeVar("Word", bound=str)


def object_schema(properties: Mapping[str, object]) -> JsonSchema:
    """An object with all of these properties and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def choice_schema(choices: Iterable[str]) -> JsonSchema:
    """One of several words."""
    return {"type": "string", "enum": list(choices)}


def ids_schema(ids: Iterable[str]) -> JsonSchema:
    """A list of different ids."""
    return {"type": "array", "items": choice_schema(ids), "uniqueItems": True}


def read_choice(reply: Mapping[str, Any], field: str, choices: Collection[Word]) -> Word:
    """The one of several words that a field of a reply has.

    Raises:
        InvalidReply: It has none of them.
    """
    for choice in choices:
        if reply.get(field) == choice:
            return choice
    raise InvalidReply(f"{field!r} must be one of {', '.join(choices)}")


def refuse(faults: Mapping[str, Sequence[str]]) -> None:
    """Refuse a reply that has any of these faults.

    Args:
        faults: Faults with the ids they concern; long lists are truncated.

    Raises:
        InvalidReply: Some fault has ids.
    """
    found = []
    for fault, ids in faults.items():
        if ids:
            more = f" and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else ""
            found.append(f"{fault}: {', '.join(ids[:_MAX_LISTED])}{more}")
    if found:
        raise InvalidReply("; ".join(found))


def most_tokens(longest: str) -> int:
    """Token limit: the longest reply at one token a byte, which no tokenizer exceeds, and some slack."""
    return _SLACK_TOKENS + len(longest.encode())


def as_id(item: Any) -> str | None:
    """A text or a number as an id; None for anything else."""
    return str(item) if isinstance(item, str | int) and not isinstance(item, bool) else None
