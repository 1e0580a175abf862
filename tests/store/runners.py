"""Runners of a shared run, each a process of its own, and the counts that show whether anything is lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from evals.bench.postgres_server import PostgresServer
from runs.check import check
from runs.folder import CALLS, CASES, RunFolder
from serving.journal import Journal
from tests.evigraph import processes, run_command, write_cases, write_recipe
from tools.kills import SCRIPT

CASES_OF_A_RUN = 24
CALLS_OF_A_CASE = 8
CALLS_OF_A_RUN = CASES_OF_A_RUN * CALLS_OF_A_CASE
AT_ONCE = 4
MOST_AWAY = 4 * AT_ONCE
"""Calls in flight: of each case the intent beside three votes."""
PATIENCE_S = 240.0


class Runner:
    """A process that works on a run."""

    def __init__(self, words: Sequence[str], folder: Path, name: str, environment: Mapping[str, str]) -> None:
        self.folder = folder / name
        self._out, self._said = folder / f"{name}.out", folder / f"{name}.err"
        for earlier in (self._out, self._said):
            earlier.unlink(missing_ok=True)
        given = {**os.environ, "COLUMNS": "200", **environment}
        target = ([*words], folder, given, self._out, self._said, False)
        self.process = processes().Process(target=run_command, args=target)
        self.process.start()

    @property
    def said(self) -> str:
        """What it has said on the way."""
        return self._said.read_text()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        self.process.join(PATIENCE_S)
        assert self.process.exitcode is not None, self.said
        return self.process.exitcode

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


class Bench:
    """A folder with cases, a recipe, a script that counts calls, and a database."""

    def __init__(self, folder: Path, server: PostgresServer, alone: Bench | None = None) -> None:
        self.folder = folder
        self.server = server
        self.database = server.create()
        self.alone = alone or self
        write_cases(folder / "cases.jsonl", CASES_OF_A_RUN)
        write_recipe(folder)
        (folder / "script.py").write_text(SCRIPT)

    def start(self, name: str, *more: str, store: bool = True, command: str = "run") -> Runner:
        """Begin or join the run in a folder of this name; `command` may be one that goes on with it."""
        words = ["run", "tamu", "cases.jsonl", "--model", "scripted:script.py:count", "--recipe"]
        words += ["lexical.yaml", "--out", name]
        if command != "run":
            words = [command, name]
        shared = ["--store", self.server.url(self.database)] if store else []
        return self.command(name, *words, *shared, "--concurrency", str(AT_ONCE), *more)

    def command(self, name: str, *words: str, environment: dict[str, str] | None = None) -> Runner:
        own = {"CALLS_FILE": str(self.folder / "calls.txt"), **(environment or {})}
        return Runner(words, self.folder, name, own)

    @property
    def asked(self) -> Counter[str]:
        """How often each call was made."""
        path = self.folder / "calls.txt"
        made = path.read_text().splitlines() if path.exists() else []
        return Counter(line for line in made if not line.startswith("probe"))

    @property
    def stored(self) -> int:
        """Calls in the database."""
        ((number,),) = self.server.query(self.database, "SELECT COUNT(*) FROM calls")
        return int(number)

    def query(self, statement: str) -> list[tuple[object, ...]]:
        return self.server.query(self.database, statement)

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something that is going to happen."""
        end = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.02)

    def until_asked(self, number: int) -> None:
        self.until(lambda: self.asked.total() >= number)

    def demand_whole(self, *runners: Runner, twice: int = 0, about_to_ask: int = 0) -> None:
        """Each folder is that of one machine byte for byte, and nothing was lost or done twice.

        Args:
            runners: That have ended.
            twice: Calls that were away when a runner or the database went, and so were made again.
            about_to_ask: Calls that a stopped runner may have looked up in vain before, and made after.
        """
        expected = (self.alone.folder / "alone" / CASES).read_bytes()
        for runner in runners:
            assert (runner.folder / CASES).read_bytes() == expected
            found = check(RunFolder(runner.folder))
            assert not found.faults
            with closing(Journal(runner.folder / CALLS, read_only=True)) as journal:
                assert journal.count() == CALLS_OF_A_RUN
            assert {line["status"] for line in RunFolder(runner.folder).cases()} == {"done"}
            assert sum(1 for _ in RunFolder(runner.folder).passes()) == CASES_OF_A_RUN
        assert self.stored == CALLS_OF_A_RUN
        assert self.asked.keys() == self.alone.asked.keys()
        assert 0 <= self.asked.total() - CALLS_OF_A_RUN - twice <= about_to_ask
        self.demand_secret()

    def demand_secret(self) -> None:
        """No file and nothing that was printed has the password."""
        for path in self.folder.rglob("*"):
            assert not path.is_file() or self.server.password.encode() not in path.read_bytes(), path
