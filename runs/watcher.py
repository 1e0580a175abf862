"""The protocol for progress of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from serving.ask import Usage


@dataclass(slots=True)
class Progress:
    """How far a batch is; the counts include cases that ended in earlier sessions.

    `waiting` counts cases that wait for a person.
    """

    total: int
    done: int = 0
    failed: int = 0
    waiting: int = 0
    usage: Usage = field(default_factory=Usage)


class Watcher(Protocol):
    """Shows a batch to a person; called in the event loop, so it must not block."""

    def notify(self, text: str) -> None:
        """One line that is worth reading now."""

    def update(self, progress: Progress) -> None:
        """The counts have changed."""
