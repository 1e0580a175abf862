"""The instant server in a process of its own, so that its processor time is not counted as a client's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from evals.bench.instant_server import MODEL
from evals.bench.result import BenchError
from serving.model_name import ModelName, parse_model_name


@dataclass(frozen=True, slots=True)
class ChildServer:
    """A running instant server."""

    port: int

    @property
    def url(self) -> str:
        """The address that a model string names."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def model(self) -> ModelName:
        """Its model."""
        return parse_model_name(f"vllm:{MODEL}@{self.url}")

    def requests(self) -> int:
        """Chat completions answered so far."""
        answer = httpx.get(f"http://127.0.0.1:{self.port}/requests", timeout=10, trust_env=False)
        return int(answer.json()["requests"])


@contextmanager
def instant_server(seconds: float = 0.0) -> Iterator[ChildServer]:
    """Start it and end it.

    Raises:
        BenchError: It does not start.
    """
    command = [sys.executable, "-m", "evals.bench.instant_server", "--until-input-ends"]
    child = subprocess.Popen(  # noqa: S603 - this interpreter, this package, one number
        [*command, "--seconds", str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        port = child.stdout.readline().strip()
        if not port:
            raise BenchError("the benchmark's server did not start")
        yield ChildServer(int(port))
    finally:
        child.stdin.close()
        try:
            child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
