"""Evigraph with servers that others wrote: `python -m tests.zoo.servers install`, then `make test-zoo`.

One server runs at a time. Models of this size often give useless replies, so what is tested is that runs end,
and that nothing is lost or asked twice. What each run printed is shown.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import CALLS, CASES
from tests.evigraph import Ended, Started, evigraph
from tests.goldens.outputs import NOTES, recipe_runs, write_inputs
from tests.zoo.servers import KEY, NAMES, Server

pytestmark = pytest.mark.zoo

MAX_S = 1800.0
LIMITS = ("--timeout", "600", "--max-connections", "4", "--keep-going")


def settings(*values: str) -> tuple[str, ...]:
    """The option of each value."""
    return tuple(word for value in values for word in ("--set", value))


SHORT = settings("answer.max_tokens=96")
FEW = settings(
    *("evidence.votes=2", "evidence.threshold=1", "evidence.reply=ids", "evidence.reflection=false"),
    *("evidence.demonstrations=0", "answer.demonstrations=0", "answer.max_tokens=96"),
)
SYSTEMS = {
    "demo": FEW,
    "heids": SHORT,
    "direct": SHORT,
    "weak_labels": (),
    "timeaware": settings("literature.k=2"),
    "bioasq": (),
}
"""A packaged recipe of each system, and what makes it smaller."""
SHOWN = (
    *("done", "failed", "errors", "calls", "replayed_calls", "input_tokens", "output_tokens", "retries"),
    *("corrected_replies", "incomplete_replies", "flags", "degraded"),
)
"""What is shown of the summary of a run."""
NOTE = """\
The patient took warfarin for atrial fibrillation. On admission the INR was 9.1, with bleeding from the gums.
Vitamin K was given to reverse the warfarin. The INR fell to 1.8 on the next day. He was discharged home.
"""


@pytest.fixture(scope="module", params=NAMES)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    if server.missing:
        pytest.skip(server.missing)
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("OPENAI_API_KEY", KEY)
            yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    write_inputs(folder)
    (folder / "note.txt").write_text(NOTE)
    corpus = ("corpus", "build", "samples/health/literature.jsonl", "--out", "health-corpus")
    assert evigraph(*corpus, folder=folder).code == 0
    return folder


def shown(title: str, ended: Ended, begun: float) -> Ended:
    out = ended.out
    if out.startswith("{"):
        out = f"{ ({name: ended.summary[name] for name in SHOWN}) }\n"
    sys.stdout.write(f"\n{title}: code {ended.code}, {time.monotonic() - begun:.0f} s\n{out}{ended.err}")
    return ended


def test_models_check(server: Server, folder: Path) -> None:
    begun = time.monotonic()
    checked = evigraph("models", "check", server.model, folder=folder, timeout=MAX_S)
    shown(f"{server.name} models check", checked, begun)
    assert checked.code == 0


@pytest.mark.parametrize("name", SYSTEMS)
def test_two_cases_of_each_system_end(name: str, server: Server, folder: Path) -> None:
    command = recipe_runs("--model", server.model)[name]
    out = f"{server.name}-{name}"
    begun = time.monotonic()
    arguments = (*command, *SYSTEMS[name], *LIMITS, "--limit", "2", "--out", out, "--json")
    ended = shown(out, evigraph(*arguments, folder=folder, timeout=MAX_S), begun)
    summary = json.loads(ended.out)
    assert (summary["status"], summary["done"] + summary["failed"]) == ("finished", 2)
    # Models of this size may write nothing that can be used.
    assert set(summary["errors"]) <= {"invalid_output"}


def test_ask(server: Server, folder: Path) -> None:
    question = ("ask", "Why was vitamin K given?", "--note", "note.txt", "--model", server.model)
    begun = time.monotonic()
    out = ("--out", f"{server.name}-ask")
    ended = shown(out[1], evigraph(*question, *out, folder=folder, timeout=MAX_S), begun)
    assert ended.code == 0 or ended.out.startswith("failed: invalid_output: ")


def test_a_run_is_resumed_after_its_server_was_killed(server: Server, folder: Path) -> None:
    out = folder / f"{server.name}-killed"
    small = ("--recipe", "recipes/demo.yaml", *FEW, "--limit", "2", "--concurrency", "1")
    run = ("run", "tamu", NOTES, *small, "--model", server.model, *LIMITS, "--max-outage", "600")
    started = Started(*run, "--out", out.name, folder=folder)
    deadline = time.monotonic() + MAX_S
    while not unfinished(out):
        assert started.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    server.kill()
    time.sleep(2)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == 130
    before, calls, replayed = ended_cases(out), answered(out), unfinished(out)
    assert replayed
    server.start()
    begun = time.monotonic()
    again = ("resume", out.name, *LIMITS, "--json")
    ended = shown(f"{out.name}, resumed", evigraph(*again, folder=folder, timeout=MAX_S), begun)
    after = answered(out)
    assert ended.summary["done"] + ended.summary["failed"] == 2
    assert set(ended.summary["errors"]) <= {"invalid_output"}
    assert ended_cases(out)[: len(before)] == before
    # Nothing that was answered is asked again.
    assert {key: after[key] for key in calls} == calls
    session = ended.summary["last_session"]
    assert (session["calls"], session["replayed_calls"]) == (len(after) - len(calls), replayed)
    sys.stdout.write(
        f"before: {len(before)} cases, {len(calls)} calls;"
        f" after: {len(after) - len(calls)} calls, {replayed} replayed\n"
    )


def ended_cases(run: Path) -> list[dict[str, Any]]:
    path = run / CASES
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def unfinished(run: Path) -> int:
    """How many calls of a case under way are answered; 0 before the first case has ended."""
    ended = {line["case_id"] for line in ended_cases(run)}
    return sum(case not in ended for case, _ in answered(run).values()) if ended else 0


def answered(run: Path) -> dict[bytes, tuple[str, float]]:
    """The key of each answered call, with its case and its seconds."""
    with closing(sqlite3.connect(run / CALLS)) as database:
        rows = database.execute("SELECT key, case_id, seconds FROM calls").fetchall()
    return {key: (case, seconds) for key, case, seconds in rows}
