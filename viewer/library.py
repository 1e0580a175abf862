"""The runs that are shown: found below some folders, each with a short name that is safe in an address."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from starlette.exceptions import HTTPException

from runs.record.folder import CASES
from runs.record.found import find_runs
from runs.record.index import Report
from runs.record.manifest import RunError
from viewer.opened_run import OpenedRun

_MAX_OPEN = 8
"""Runs open at once; a table of 10,000 cases takes about 15 MB."""
_SEARCH_INTERVAL = 2.0
"""Seconds between searches for new runs."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


def name_runs(paths: Iterable[Path], known: Mapping[str, Path]) -> dict[str, Path]:
    """A name for each path; known paths keep their names.

    A name consists of the last parts of the path and is only looked up: requests never become paths.
    """
    by_path = {path: name for name, path in known.items()}
    named: dict[str, Path] = {}
    fresh = []
    for path in paths:
        if path in by_path:
            named[by_path[path]] = path
        else:
            fresh.append(path)
    for path in fresh:
        stem = _stem(path)
        name, number = stem, 1
        while name in named or name in known:
            number += 1
            name = f"{stem}-{number}"
        named[name] = path
    return named


def _stem(path: Path) -> str:
    parts = path.resolve().parts
    # `forks/1` and `seeds/1` mean nothing without the run that they belong to.
    kept = parts[-3:] if len(parts) > 3 and parts[-1].isdigit() else parts[-1:]
    return _UNSAFE.sub("-", "-".join(kept)).strip("-")[:80] or "run"


class Library:
    """Runs by name, found below some folders. Every method may be called from any thread."""

    def __init__(
        self,
        roots: Sequence[Path],
        report: Report = lambda _: None,
        visible: Callable[[Path], bool] = lambda _: True,
    ) -> None:
        """Find the runs: `roots` are run folders, or folders that hold some.

        `report` is called with a line about anything that takes long; `visible` says whether the person whose
        request is answered may see a run.
        """
        self._visible = visible
        self.roots = roots
        self.report = report
        self._lock = threading.Lock()
        self._paths: dict[str, Path] = {}
        self._runs: dict[str, OpenedRun] = {}
        self._used: OrderedDict[str, None] = OrderedDict()
        self._searched = 0.0

    def names(self) -> list[str]:
        """Names of the runs that exist now, in the order of their paths."""
        with self._lock:
            if not self._searched or time.monotonic() - self._searched > _SEARCH_INTERVAL:
                found = dict.fromkeys(find_runs(self.roots))
                self._paths = name_runs(found, self._paths)
                self._searched = time.monotonic()
            paths = dict(self._paths)
        return [name for name, path in paths.items() if self._visible(path)]

    def get(self, name: str) -> OpenedRun | None:
        """The run of this name; None where there is none."""
        if name not in self._paths:
            self.names()
        with self._lock:
            path = self._paths.get(name)
            if path is None or not self._visible(path):
                return None
            run = self._runs.setdefault(name, OpenedRun(path, self.report))
            self._used[name] = None
            self._used.move_to_end(name)
            past = [self._used.popitem(last=False)[0] for _ in range(len(self._used) - _MAX_OPEN)]
        for other in past:
            self._runs[other].release()
        return run

    def name_of(self, path: Path) -> str | None:
        """The name of the run in this folder; None where it is not shown."""
        wanted = path.resolve()
        return next((name for name, known in self._paths.items() if known.resolve() == wanted), None)

    def warm(self) -> None:
        """Read the rows of the latest runs ahead of the first request; for a separate thread."""
        latest = sorted(self.names(), key=lambda name: _changed(self._paths.get(name)), reverse=True)
        for name in latest[:_MAX_OPEN]:
            run = self.get(name)
            if run is not None:
                # A damaged run reports it on its own page.
                with contextlib.suppress(RunError):
                    run.ended()

    def close(self) -> None:
        for run in self._runs.values():
            run.release()


def named(library: Library, name: str) -> OpenedRun:
    """The run of a name in an address.

    Raises:
        HTTPException: There is none.
    """
    run = library.get(name)
    if run is None:
        raise HTTPException(404, f"Run {name!r} not found.")
    return run


def _changed(path: Path | None) -> float:
    try:
        return 0.0 if path is None else (path / CASES).stat().st_mtime
    except OSError:
        return 0.0
