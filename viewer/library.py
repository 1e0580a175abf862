"""The runs that are shown."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from runs.folder import CASES
from runs.index import Report
from runs.manifest import RunError
from viewer.discovery import find_runs, name_runs
from viewer.opened_run import OpenedRun

_HELD = 8
"""Runs held open at once; a table of 10,000 cases takes about 15 MB."""
_FOUND_FOR = 2.0
"""Seconds until the folders are searched for new runs again."""


class Library:
    """Runs by name, found below some folders. Every method may be called from any thread."""

    def __init__(self, roots: Sequence[Path], report: Report = lambda _: None) -> None:
        """Find the runs.

        Args:
            roots: Run folders, or folders that hold some.
            report: Told in a line of what takes long.
        """
        self._roots = roots
        self._report = report
        self._lock = threading.Lock()
        self._paths: dict[str, Path] = {}
        self._runs: dict[str, OpenedRun] = {}
        self._used: OrderedDict[str, None] = OrderedDict()
        self._searched = 0.0

    def names(self) -> list[str]:
        """Names of the runs that there are now, in the order of their paths."""
        with self._lock:
            if not self._searched or time.monotonic() - self._searched > _FOUND_FOR:
                found = dict.fromkeys(find_runs(self._roots))
                self._paths = name_runs(found, self._paths)
                self._searched = time.monotonic()
            return list(self._paths)

    def get(self, name: str) -> OpenedRun | None:
        """The run of this name; None where there is none."""
        if name not in self._paths:
            self.names()
        with self._lock:
            path = self._paths.get(name)
            if path is None:
                return None
            run = self._runs.setdefault(name, OpenedRun(path, self._report))
            self._used[name] = None
            self._used.move_to_end(name)
            past = [self._used.popitem(last=False)[0] for _ in range(len(self._used) - _HELD)]
        for other in past:
            self._runs[other].release()
        return run

    def name_of(self, path: Path) -> str | None:
        """The name of the run in this folder; None where it is not shown."""
        wanted = path.resolve()
        return next((name for name, known in self._paths.items() if known.resolve() == wanted), None)

    def warm(self) -> None:
        """Read the rows of the latest runs ahead of the first request; for a thread of its own."""
        latest = sorted(self.names(), key=lambda name: _changed(self._paths.get(name)), reverse=True)
        for name in latest[:_HELD]:
            run = self.get(name)
            if run is not None:
                # What is damaged says so on its own page.
                with contextlib.suppress(RunError):
                    run.ended()

    def close(self) -> None:
        """Close every file."""
        for run in self._runs.values():
            run.release()


def _changed(path: Path | None) -> float:
    try:
        return 0.0 if path is None else (path / CASES).stat().st_mtime
    except OSError:
        return 0.0
