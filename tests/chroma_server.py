"""A real Chroma server in a process of its own, which a test stops and starts again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx


class ChromaServer:
    """Keeps its port and its data from one start to the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Return once it answers."""
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self._folder / "data")]
        with (self._folder / "chroma.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self._port)],
                env=os.environ | {"ANONYMIZED_TELEMETRY": "False"},
                stdout=log,
                stderr=log,
            )
        with httpx.Client(trust_env=False) as client:
            while self._process.poll() is None:
                try:
                    client.get(f"{self.url}/api/v2/heartbeat").raise_for_status()
                    return
                except httpx.HTTPError:
                    time.sleep(0.05)
        raise RuntimeError((self._folder / "chroma.log").read_text())

    def kill(self) -> None:
        """As a machine that loses power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
