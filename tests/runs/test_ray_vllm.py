"""On Ray with two real servers: `EVIGRAPH_TEST_VLLM_PYTHON=.venv-vllm/bin/python pytest -m vllm tests/runs`.

`evigraph serve` starts both, which takes minutes on two cores. Run with `-s` to see who answered what.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import httpx
import pytest

from runs.record.folder import CALLS, RunFolder
from runs.upkeep.check import check
from serving.journal.journal import Journal
from tests.evigraph import COMMAND
from tests.faults.real_vllm import NAME, SETTINGS, START_TIMEOUT_S, free_port

pytestmark = pytest.mark.vllm

CASES = 8
SAMPLES = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))
MAX_S = 1200.0
RECIPE = """\
system: tamu
embedding: lexical:256
evidence: {demonstrations: 0, votes: 2, threshold: 1, reflection: false}
stop_after: evidence
"""
"""Two short requests a case, with short replies."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that `evigraph serve` has started."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answered(self) -> int:
        """Replies that it has made, by its own count: each sample of a request is one."""
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=60).text
        return int(
            sum(map(float, re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", text, re.MULTILINE)))
        )


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Served]]:
    python = os.environ.get("EVIGRAPH_TEST_VLLM_PYTHON")
    if not python:
        pytest.skip("set EVIGRAPH_TEST_VLLM_PYTHON to an interpreter that has vLLM")
    pytest.importorskip("ray")
    started = [_serve(tmp_path, Path(python).absolute(), core) for core in range(2)]
    try:
        for server in started:
            _wait(server, partial(_is_well, server), START_TIMEOUT_S)
        yield started
    finally:
        for server in started:
            # Its vLLM ends with it.
            server.process.kill()
            server.process.wait()


def _serve(folder: Path, python: Path, core: int) -> Served:
    port = free_port()
    where = {"VLLM_CPU_OMP_THREADS_BIND": str(core % (os.cpu_count() or 1)), "OMP_NUM_THREADS": "1"}
    words = [*COMMAND, "serve", NAME, "--python", str(python), "--port", str(port)]
    with (folder / f"serve-{core}.txt").open("wb") as said:
        process = subprocess.Popen(
            [*words, "--log", f"vllm-{core}.log"],
            cwd=folder,
            env=os.environ | SETTINGS | where,
            stdout=said,
            stderr=said,
        )
    return Served(process, port)


def _wait(server: Served, until: Callable[[], object], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not until():
        assert server.process.poll() is None and time.monotonic() < limit
        time.sleep(0.2)


def _is_well(server: Served) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{server.port}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def _running(folder: Path, out: str, servers: list[Served]) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "short.yaml").write_text(RECIPE)
    model = f"vllm:{NAME}@{','.join(server.url for server in servers)}"
    words = ["tamu", str(SAMPLES), "--recipe", "short.yaml", "--limit", str(CASES), "--model", model]
    # Without probes, all that servers answer is of the run.
    cluster = ["--on", "ray", "--workers", "2", "--max-connections", "4", "--no-probe"]
    with (folder / f"{out}.txt").open("wb") as said:
        run = subprocess.Popen(
            [*COMMAND, "run", *words, *cluster, "--out", out],
            cwd=folder,
            stdout=said,
            stderr=said,
        )
    try:
        yield run
    finally:
        run.kill()
        run.wait()


def _answered_by(run: Path) -> dict[str, int]:
    """Stored replies of each server."""
    journal = Journal(run / CALLS, read_only=True)
    try:
        return {server: traffic.replies for server, traffic in journal.traffic().items()}
    finally:
        journal.close()


def _assert_done(folder: Path, out: str) -> None:
    manifest = RunFolder(folder / out).manifest
    said = (folder / f"{out}.txt").read_text()
    assert (manifest.status, manifest.counts.done, manifest.counts.failed) == ("finished", CASES, 0), said
    assert "2 workers on 1 node" in said
    assert not check(RunFolder(folder / out)).faults


def test_two_servers_answer_a_run_on_ray_and_one_of_them_may_end(
    servers: list[Served], tmp_path: Path
) -> None:
    before = [server.answered() for server in servers]
    with _running(tmp_path, "both", servers) as run:
        assert run.wait(timeout=MAX_S) == 0, (tmp_path / "both.txt").read_text()
    _assert_done(tmp_path, "both")
    answered = {s.url: s.answered() - old for s, old in zip(servers, before, strict=True)}
    stored = _answered_by(tmp_path / "both")
    sys.stdout.write(f"\nboth: {answered} by /metrics, {stored} stored\n")
    assert stored == answered
    assert min(stored.values()) > 0

    # It is killed once it has answered, with calls of the run in flight.
    first = servers[0].answered()
    with _running(tmp_path, "one", servers) as run:
        _wait(servers[0], lambda: servers[0].answered() > first + 2, MAX_S)
        servers[0].process.kill()
        assert run.wait(timeout=MAX_S) == 0, (tmp_path / "one.txt").read_text()
    _assert_done(tmp_path, "one")
    sys.stdout.write(f"one killed: {_answered_by(tmp_path / 'one')} stored\n")
    assert _answered_by(tmp_path / "one").keys() == answered.keys()
