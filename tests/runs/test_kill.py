"""A run that is killed in the middle and resumed pays once and ends the same."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runs.record.folder import CALLS, CASES
from runs.record.index import INDEX
from serving.journal.journal import Journal
from tests.evigraph import Started, evigraph, write_cases

CASES_IN_BATCH = 60

SCRIPT = """\
import asyncio, os
from serving.backends.scripted import made_up_reply

made = 0

async def count(call):
    global made
    # Cases end in another order than they begin.
    await asyncio.sleep(0.03 if int(call.case_id[1:]) % 3 == 0 else 0.005)
    made += 1
    if made > int(os.environ.get("STOPS_AFTER", 1000)):
        # A run that is ended in the middle waits there for its signal.
        await asyncio.sleep(600)
    with open(os.environ["CALLS_FILE"], "a") as file:
        file.write(f"{call.role} {call.case_id} {call.sample}\\n")
    return made_up_reply(call)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    write_cases(tmp_path / "cases.jsonl", CASES_IN_BATCH)
    return path


def arguments(out: str, recipe: Path) -> list[str]:
    return [
        *("run", "tamu", "cases.jsonl", "--model", "scripted:script.py:count"),
        *("--recipe", str(recipe), "--concurrency", "4", "--out", out, "--json"),
    ]


def start_and_end(folder: Path, out: str, recipe: Path, calls: Path, number: signal.Signals) -> int:
    """Start a run, send it a signal in the middle, and wait for it."""
    process = half_way(folder, out, recipe, calls)
    process.send_signal(number)
    return process.wait(timeout=120)


def half_way(folder: Path, out: str, recipe: Path, calls: Path) -> Started:
    """A run half of whose cases have ended; it waits for a signal once more have."""
    environment = {"CALLS_FILE": str(calls), "STOPS_AFTER": str(5 * CASES_IN_BATCH)}
    process = Started(*arguments(out, recipe), folder=folder, environment=environment)
    ended = folder / out / CASES
    wait_for(
        lambda: ended.exists() and ended.read_bytes().count(b"\n") >= CASES_IN_BATCH // 2,
        process,
    )
    return process


def wait_for(reached: Callable[[], bool], process: Started) -> None:
    """Wait until a process that goes on has come to something."""
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)


def made(calls: Path) -> list[str]:
    return calls.read_text().splitlines()


def test_kill_9_and_resume_make_the_calls_of_one_pass_and_the_same_bytes(
    tmp_path: Path, recipe: Path, script: Path
) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    whole = evigraph(*arguments("whole", recipe), folder=tmp_path, environment={"CALLS_FILE": str(one)})
    assert whole.code == 0
    assert start_and_end(tmp_path, "killed", recipe, two, signal.SIGKILL) == -signal.SIGKILL
    journal = Journal(tmp_path / "killed" / CALLS)
    in_flight = len(made(two)) - journal.count()
    journal.close()
    resumed = evigraph("resume", "killed", "--json", folder=tmp_path, environment={"CALLS_FILE": str(two)})
    assert resumed.code == 0
    assert resumed.summary["done"] == CASES_IN_BATCH
    assert len(made(two)) == len(made(one)) + in_flight
    assert set(made(two)) == set(made(one))
    assert (tmp_path / "killed" / CASES).read_bytes() == (tmp_path / "whole" / CASES).read_bytes()


def test_status_tells_a_killed_run_from_one_that_is_running(
    tmp_path: Path, recipe: Path, script: Path
) -> None:
    process = half_way(tmp_path, "run", recipe, tmp_path / "calls.txt")
    running = evigraph("status", "run", folder=tmp_path)
    shown = evigraph("show", "run", "--json", folder=tmp_path).summary
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=120)
    assert running.out.startswith("run: running; ") and "evigraph resume" not in running.out
    assert shown["status"] == "running" and "evigraph resume run" not in shown["next"]
    killed = evigraph("status", "run", folder=tmp_path).out
    assert killed.startswith("run: killed; ") and "next: evigraph resume run" in killed
    assert evigraph("status", "run", "--json", folder=tmp_path).summary["status"] == "killed"


WAITS_IN_A_THREAD = """\
import asyncio, threading
from pathlib import Path

async def reply(call):
    Path("waits").touch()
    await asyncio.to_thread(threading.Event().wait)

async def block(call):
    Path("waits").touch()
    threading.Event().wait()
"""


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_ends_a_process_whose_threads_do_not_end(
    tmp_path: Path, recipe: Path, script: Path, first: signal.Signals
) -> None:
    script.write_text(WAITS_IN_A_THREAD)
    given = ("run", "tamu", "cases.jsonl", "--model", "scripted:script.py:reply", "--no-probe")
    err = tmp_path / "err"
    process = Started(*given, "--recipe", recipe, "--out", "run", folder=tmp_path, err=err)
    wait_for(lambda: (tmp_path / "waits").exists(), process)
    process.send_signal(first)
    wait_for(lambda: "Ctrl-C again ends at once" in err.read_text(), process)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == -signal.SIGINT
    assert evigraph("check", "run", folder=tmp_path).code == 0


def test_a_second_interrupt_ends_a_process_that_is_busy(tmp_path: Path, recipe: Path, script: Path) -> None:
    script.write_text(WAITS_IN_A_THREAD)
    given = ("run", "tamu", "cases.jsonl", "--model", "scripted:script.py:block", "--no-probe")
    process = Started(*given, "--recipe", recipe, "--out", "run", folder=tmp_path)
    wait_for(lambda: (tmp_path / "waits").exists(), process)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert process.wait(timeout=120) == -signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_cleanly_and_resume_finishes(
    tmp_path: Path, recipe: Path, script: Path, number: signal.Signals
) -> None:
    calls = tmp_path / "calls.txt"
    assert start_and_end(tmp_path, "stopped", recipe, calls, number) == 130
    shown = evigraph("show", "stopped", "--json", folder=tmp_path).summary
    assert shown["status"] == "interrupted"
    # Nobody who stops a run waits for its index.
    assert not (tmp_path / "stopped" / INDEX).exists()
    assert CASES_IN_BATCH // 2 <= shown["done"] < CASES_IN_BATCH
    resumed = evigraph("resume", "stopped", "--json", folder=tmp_path, environment={"CALLS_FILE": str(calls)})
    assert (resumed.code, resumed.summary["done"]) == (0, CASES_IN_BATCH)


def test_what_a_killed_session_has_used_counts_against_the_budget(
    tmp_path: Path, recipe: Path, script: Path
) -> None:
    calls = tmp_path / "calls.txt"
    start_and_end(tmp_path, "killed", recipe, calls, signal.SIGKILL)
    journal = Journal(tmp_path / "killed" / CALLS)
    ((read, written, _),) = journal.tokens().values()
    journal.close()
    resumed = evigraph(
        *("resume", "killed", "--json", "--max-tokens-total", str(read + written)),
        folder=tmp_path,
        environment={"CALLS_FILE": str(calls)},
    )
    assert (resumed.summary["status"], resumed.summary["last_session"]["calls"]) == ("interrupted", 0)
