"""`langgraph dev` itself, in a folder whose packages have the names of ours; `pytest -m studio`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.evigraph import write_recipe

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("langgraph")

pytestmark = [
    pytest.mark.studio,
    pytest.mark.skipif(not COMMAND.exists(), reason="langgraph-cli is not installed"),
]


@contextlib.contextmanager
def studio(folder: Path) -> Iterator[str]:
    """The server's address, once it has loaded its graphs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["dev", "--no-browser", "--no-reload", "--allow-blocking", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 300
        while not _answers(url):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text("utf-8", "replace")
            time.sleep(0.5)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/ok", timeout=5).is_success
    return False


@pytest.mark.parametrize("place", ["runs.execute.studio:tamu", f"{ROOT}/runs/execute/studio.py:tamu"])
def test_a_case_runs_in_studio_beside_packages_of_our_names(tmp_path: Path, place: str) -> None:
    ours = [one.name for one in ROOT.iterdir() if one.name != "tests" and (one / "__init__.py").is_file()]
    assert {"cases", "runs", "prompts", "graph", "cli"} <= set(ours)
    for name in ours:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('the decoy {name} was imported')")
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": {"tamu": place}}))
    context = {"model": "scripted:auto", "recipe": str(write_recipe(tmp_path))}
    asked = {"assistant_id": "tamu", "input": {"case_id": "103"}, "context": context}
    with studio(tmp_path) as url:
        state = httpx.post(f"{url}/runs/wait", json=asked, timeout=300).json()
    assert state["answer"] and state["usable_votes"] == 3
