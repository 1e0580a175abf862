"""The facts of a decision for people: short ones in a line, long and nested ones to be opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_LONG = 240
_DEEP = 6


@dataclass(frozen=True, slots=True)
class Fact:
    """A named value: a text, or parts of its own. `summary` is what is seen of one that must be opened."""

    name: str
    text: str
    summary: str = ""
    parts: list[Fact] = field(default_factory=list)


def read_facts(facts: dict[str, object]) -> list[Fact]:
    """All facts, in their order."""
    return [_fact(str(name), value, 0) for name, value in facts.items()]


def _fact(name: str, value: object, depth: int) -> Fact:
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return _line(name, ", ".join(map(_text, value)) or "none", f"{len(value):,} values")
    if isinstance(value, dict) and not any(isinstance(one, list | dict) for one in value.values()):
        pairs = ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
        return _line(name, pairs or "none", f"{len(value):,} values")
    if not isinstance(value, list | dict):
        return _line(name, _text(value), f"{len(str(value)):,} characters")
    if depth == _DEEP:
        return _line(name, str(value), "more")
    parts: Iterable[tuple[str, object]] = (
        value.items() if isinstance(value, dict) else ((str(number), one) for number, one in enumerate(value))
    )
    return Fact(name, "", f"{len(value):,} entries", [_fact(str(key), one, depth + 1) for key, one in parts])


def _line(name: str, text: str, summary: str) -> Fact:
    return Fact(name, text, summary if len(text) > _LONG else "")


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
