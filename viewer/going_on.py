"""Waiting cases go on by themselves once they are reviewed: a process resumes them, and no others."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cases.texts import plural, printable
from runs.execute.sessions import reviewed_waiting
from runs.record.folder import RunFolder, locked
from runs.record.manifest import RunError

Command = Callable[[Path], Sequence[str]]
"""Command line that resumes the reviewed cases of a run folder."""

_RETRY = 2.0
"""Seconds between looks at a run that another process is writing."""
_LAST_WORDS = 30.0
"""Seconds that a process may take to end cleanly with the viewer."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How the reviewed cases of a run go on.

    Attributes:
        state: `running`, `held` by another process that writes the run, or `failed`.
    """

    state: Literal["running", "held", "failed"]
    fault: str = ""


class GoingOn:
    """One process a run at most. Every method may be called from any thread."""

    def __init__(self, command: Command | None = None) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._progress: dict[Path, Progress | None] = {}
        self._wanted: set[Path] = set()
        self._threads: dict[Path, threading.Thread] = {}
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}
        self._closed = threading.Event()

    @property
    def possible(self) -> bool:
        """Whether reviewed cases continue automatically."""
        return self._command is not None

    def start(self, run: Path) -> None:
        """Continue the reviewed cases of a run; later reviews follow."""
        if self._command is None:
            return
        with self._lock:
            self._wanted.add(run)
            if self._closed.is_set() or run in self._threads:
                return
            self._progress[run] = Progress("running")
            thread = threading.Thread(target=self._work, args=(run, self._command), name=f"resume {run.name}")
            self._threads[run] = thread
            thread.start()

    def progress(self, run: Path) -> Progress | None:
        """Progress of a run's reviewed cases; None if none continues and none failed."""
        return self._progress.get(run)

    def close(self) -> None:
        """End all processes; finished work is kept."""
        self._closed.set()
        with self._lock:
            processes, threads = list(self._processes.values()), list(self._threads.values())
        for process in processes:
            process.terminate()
        for thread in threads:
            thread.join(_LAST_WORDS)

    def _work(self, run: Path, command: Command) -> None:
        while True:
            with self._lock:
                self._wanted.discard(run)
            try:
                self._resume(run, command)
                end = None
            except (RunError, OSError) as error:
                end = Progress("failed", printable(str(error)))
            with self._lock:
                # A review may have come in after the last look.
                if run in self._wanted and not self._closed.is_set():
                    continue
                self._progress[run] = end
                del self._threads[run]
                return

    def _resume(self, run: Path, command: Command) -> None:
        tried: set[str] = set()
        while not self._closed.is_set() and (found := reviewed_waiting(RunFolder(run))):
            if _is_held(run):
                self._progress[run] = Progress("held")
                self._closed.wait(_RETRY)
                continue
            if found & tried:
                raise RunError(f"its session has ended, and {plural(len(found & tried), 'case')} still waits")
            self._progress[run] = Progress("running")
            self._run(run, command(run))
            tried |= found

    def _run(self, run: Path, words: Sequence[str]) -> None:
        with tempfile.TemporaryFile() as said:
            with self._lock:
                if self._closed.is_set():
                    return
                process = subprocess.Popen(  # noqa: S603 - our own program
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    # Ctrl-C ends the server, and that ends the process cleanly.
                    start_new_session=True,
                )
                self._processes[run] = process
            code = process.wait()
            with self._lock:
                del self._processes[run]
            # A case may fail, which its line says.
            if code not in (0, 1, 130):
                said.seek(0)
                lines = said.read().decode(errors="replace").splitlines()
                words = [line.strip("│╭╰─╮╯ ").removeprefix("evigraph: ") for line in lines]
                raise RunError(next((line for line in reversed(words) if line), f"exit code {code}"))


def _is_held(run: Path) -> bool:
    """Whether another process writes the run."""
    try:
        with locked(run):
            return False
    except RunError:
        return True
