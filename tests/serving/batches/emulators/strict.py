"""Checks of requests against the providers' own Python types, with unknown fields refused."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import get_type_hints, is_typeddict

_STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


class Strict:
    """A check of values against a type of a provider's client."""

    def __init__(self, kind: Any) -> None:
        for one in _typed_dicts(kind, set()):
            one.__pydantic_config__ = _STRICT
        self._adapter = TypeAdapter(kind)

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value, as `place: reason`."""
        try:
            _read_to_the_end(self._adapter.validate_python(value))
        except ValidationError as error:
            first = error.errors()[0]
            return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return None


def _typed_dicts(kind: Any, seen: set[int]) -> Iterator[Any]:
    if id(kind) in seen:
        return
    seen.add(id(kind))
    if is_typeddict(kind):
        yield kind
        for hint in get_type_hints(kind, include_extras=True).values():
            yield from _typed_dicts(hint, seen)
    for argument in typing.get_args(kind):
        yield from _typed_dicts(argument, seen)


def _read_to_the_end(value: Any) -> None:
    """What pydantic takes as an iterable it checks while it is read."""
    if isinstance(value, Mapping):
        for one in value.values():
            _read_to_the_end(one)
    elif hasattr(value, "__iter__") and not isinstance(value, str | bytes):
        for one in value:
            _read_to_the_end(one)
