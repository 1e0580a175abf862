"""JSON without duplicate keys: other readers silently take the last value."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}\[\]]', re.DOTALL)


class RepeatedKey(ValueError):
    """An object has a key twice."""

    def __init__(self, key: str, line: int = 0) -> None:
        """With the line of the second one, from 1, where it is known."""
        place = f", again in line {line}" if line else ""
        super().__init__(f"duplicate key {key!r} in one object{place}; keep one of them")
        self.key = key


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its keys and values, as `object_pairs_hook` of `json`.

    Raises:
        RepeatedKey: A key is repeated.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKey(next(key for place, key in enumerate(keys) if key in keys[:place]))
    return found


def loads(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        RepeatedKey: An object has a key twice; names the line.
        ValueError: It is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=unique)
    except RepeatedKey as error:
        whole = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
        raise RepeatedKey(error.key, _line_of(whole)) from None


def _line_of(text: str) -> int:
    """Line of a key's second occurrence in its object."""
    objects: list[set[str] | None] = []
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            objects.append(set() if token[0] == "{" else None)
        elif token[0] in "}]":
            objects.pop()
        elif token[2] and (keys := objects[-1]) is not None:
            key = json.loads(token[1])
            if key in keys:
                return text.count("\n", 0, token.start()) + 1
            keys.add(key)
    return 0
