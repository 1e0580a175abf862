"""The same with a real vLLM server: `EVIGRAPH_TEST_VLLM_PYTHON=.venv-vllm/bin/python pytest -m vllm`.

Each test starts a batch, hits the server in the middle, and brings all cases to done afterwards. Run with
`-s` to see what the runs said.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import CALLS
from tests.evigraph import COMMAND
from tests.faults.real_vllm import RealServer
from weights.registry import cache_root

pytestmark = pytest.mark.vllm

CASES = 4
TIMEOUT_S = 120.0
MAX_S = 900.0
BATCH = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    python = os.environ.get("EVIGRAPH_TEST_VLLM_PYTHON")
    if not python:
        pytest.skip("set EVIGRAPH_TEST_VLLM_PYTHON to an interpreter that has vLLM")
    (weights,) = (cache_root() / "models").glob("smollm2-135m-*")
    server = RealServer(Path(python), weights, tmp_path_factory.mktemp("vllm") / "vllm.log")
    try:
        yield server
    finally:
        server.stop()


class Runs:
    """Commands on one run folder."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder = folder
        self.model = model

    def begin(self, command: str) -> subprocess.Popen[str]:
        first = ["tamu", str(BATCH), "--recipe", "demo", "--limit", str(CASES), "--model", self.model]
        arguments = ["run", *first, "--out", "out"] if command == "run" else [command, "out"]
        limits = ["--timeout", str(TIMEOUT_S), "--max-retries", "1", "--max-connections", "4", "--json"]
        return subprocess.Popen(
            [*COMMAND, *arguments, *limits],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
        begun = time.monotonic()
        out, err = process.communicate(timeout=MAX_S)
        sys.stdout.write(
            f"\nended {time.monotonic() - begun:.0f} s later, code {process.returncode}\n{out}{err}"
        )
        return process.returncode, json.loads(out)

    def calls(self) -> int:
        path = self.folder / "out" / CALLS
        if not path.is_file():
            return 0
        with closing(sqlite3.connect(path)) as database:
            try:
                return int(database.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
            except sqlite3.OperationalError:
                return 0

    def in_the_middle(self, process: subprocess.Popen[str]) -> None:
        """Wait until a few calls are answered and others are under way."""
        deadline = time.monotonic() + MAX_S
        while self.calls() < 3:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.2)


def hit_and_retry(
    server: RealServer, folder: Path, hit: Callable[[], None], heal: Callable[[], None], error_class: str
) -> None:
    runs = Runs(folder, server.model)
    run = runs.begin("run")
    runs.in_the_middle(run)
    hit()
    code, summary = runs.end(run)
    answered = runs.calls()
    assert code == 1
    assert summary["done"] + summary["failed"] == CASES
    assert set(summary["errors"]) == {error_class}
    heal()
    code, summary = runs.end(runs.begin("retry"))
    assert (code, summary["done"], summary["failed"]) == (0, CASES, 0)
    assert summary["last_session"]["calls"] + answered == runs.calls()


def test_killed_engine(server: RealServer, tmp_path: Path) -> None:
    def again() -> None:
        server.stop()
        server.start()

    server.start()
    hit_and_retry(server, tmp_path, server.kill_engine, again, "connection")


def test_killed_server(server: RealServer, tmp_path: Path) -> None:
    if not server.is_well():
        server.stop()
        server.start()
    hit_and_retry(server, tmp_path, server.stop, server.start, "connection")


def test_stopped_server(server: RealServer, tmp_path: Path) -> None:
    if not server.is_well():
        server.stop()
        server.start()
    hit_and_retry(
        server,
        tmp_path,
        lambda: server.send(signal.SIGSTOP),
        lambda: server.send(signal.SIGCONT),
        "timeout",
    )
