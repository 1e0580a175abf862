"""A vLLM server of the test's own on a free port, whose processes can be killed and stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx

NAME = "smollm2-135m"
START_TIMEOUT_S = 600.0

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
}
"""No network, little memory, and time: the engine gives up after 300 s, which a step took on busy cores."""


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class RealServer:
    """vLLM from an interpreter that has it, with a model from a folder; its log goes to a file."""

    python: Path
    weights: Path
    log: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def model(self) -> str:
        return f"vllm:{NAME}@http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start the processes, in a group of their own, and wait until they answer."""
        command = [
            *(str(self.python), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1"),
            *("--port", str(self.port), "--model", str(self.weights), "--served-model-name", NAME),
            *("--dtype", "bfloat16", "--max-model-len", "8192", "--enforce-eager"),
        ]
        # Without the paths of this environment: the two never mix.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.log.parent,
                env=environment | SETTINGS,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_well():
            assert self._process.poll() is None, f"vLLM has ended; see {self.log}"
            assert time.monotonic() < deadline, f"vLLM has not come up; see {self.log}"
            time.sleep(1)

    def is_well(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def kill_engine(self) -> None:
        """Kill -9 the engine's process; the one that serves HTTP lives on."""
        (engine,) = [pid for pid in self._pids() if b"EngineCore" in _title(pid)]
        os.kill(engine, signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        if self._process is not None:
            if self._pids():
                self.send(signal.SIGKILL)
            self._process.wait(timeout=30)
            self._process = None

    def _pids(self) -> list[int]:
        assert self._process is not None
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.getpgid(int(entry.name)) == self._process.pid:
                        found.append(int(entry.name))
                except ProcessLookupError:
                    continue
        return found


def _title(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
