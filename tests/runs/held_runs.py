"""A run in a folder whose calls can be held: its model waits as long as there is a file `held`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runs.record.folder import CALLS
from serving.journal.journal import Journal


@dataclass(slots=True)
class HeldRun:
    """The run `out` below a folder."""

    folder: Path

    @property
    def said(self) -> str:
        return (self.folder / "said.txt").read_text()

    def wait(self, until: Callable[[], object]) -> None:
        """For something that will be so, on a machine of any speed."""
        limit = time.monotonic() + 240
        while not until():
            assert time.monotonic() < limit, self.said
            time.sleep(0.05)

    def hold(self) -> None:
        """Let no call come to its end; what has been answered already is stored meanwhile."""
        (self.folder / "held").touch()
        time.sleep(1)

    def release(self) -> None:
        """Let the calls that are held go on."""
        (self.folder / "held").unlink()

    def stored(self) -> int:
        journal = Journal(self.folder / "out" / CALLS, read_only=True)
        try:
            return journal.count()
        finally:
            journal.close()
