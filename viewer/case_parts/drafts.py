"""Drafts of the answer that were sent back, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runs.trace_file import Line

_WRITERS = ("generate_answer", "generate_cited_answer", "generate_uncited_answer")


@dataclass(frozen=True, slots=True)
class Draft:
    """A rejected draft; `key` is that of the call that wrote it, None where the trace does not tell."""

    number: int
    faults: list[str]
    step: int
    key: str | None


def read_drafts(trace: Sequence[Line]) -> list[Draft]:
    """In the order of their writing."""
    found: list[Draft] = []
    key: str | None = None
    for index, step in enumerate(trace):
        facts = step.get("facts") or {}
        if step["node"] in _WRITERS:
            key = step["calls"][-1]["key"] if step["calls"] else None
        elif facts.get("verdict") == "sent_back":
            found.append(Draft(len(found) + 1, [str(fault) for fault in facts["faults"]], index, key))
    return found
