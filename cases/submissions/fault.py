"""What is wrong with a submission, and what the official scorer makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refused", "penalised"]
"""The official scorer raises (no score at all), or says nothing and scores lower than was meant."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a submission.

    Attributes:
        case: Id of the case; None for a fault of the whole file, or of an entry that cannot be named.
        place: Where in the file or the entry, such as `line 2`; may be empty.
    """

    severity: Severity
    case: str | None
    place: str
    fault: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """Case, place and fault in one line, without the remedy."""
        parts = (f"case {self.case!r}" if self.case is not None else "", self.place, self.fault)
        return ": ".join(filter(None, parts))


def worst_first(faults: list[Fault]) -> list[Fault]:
    """Refused ones first, each kind in the order in which it was found."""
    return sorted(faults, key=lambda fault: fault.severity != "refused")


def named(items: list[str], most: int = 5) -> str:
    """Quoted items in one line; beyond `most` only their number."""
    shown = ", ".join(map(repr, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
