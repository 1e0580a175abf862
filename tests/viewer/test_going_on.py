"""How reviewed cases go on, with the pages meanwhile and the end."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from runs.record.folder import locked
from runs.review.reviews import Reviews, make_review
from tests.viewer.conftest import PORT, TOKEN
from tests.viewer.written_run import add, ended, new_run
from viewer.going_on import GoingOn, Progress
from viewer.library import Library
from viewer.server import application


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one case, which waits and is reviewed."""
    with new_run(tmp_path / "run", ["k0"]) as run:
        waiting = ended("k0", review=None, status="waiting", answer=None)
        add(run, waiting)
    Reviews(run.path).add(make_review(waiting, reviewer="Ann", labels={"1": "not-relevant"}))
    return run.path


def wait_for_end() -> None:
    for thread in threading.enumerate():
        if thread.name == "resume run":
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("echo '╭ Error ╮\n│ evigraph: no such model │\n╰───╯' >&2; exit 2", "no such model"),
        ("exit 3", "exit code 3"),
        ("exit 0", "its session has ended, and 1 case still waits"),
        ("exit 1", "its session has ended, and 1 case still waits"),
    ],
)
def test_what_went_wrong_is_shown_on_the_page_of_the_case(run: Path, script: str, fault: str) -> None:
    going_on = GoingOn(lambda _: ["sh", "-c", script])
    going_on.start(run)
    wait_for_end()
    assert going_on.progress(run) == Progress("failed", fault)
    library = Library([run])
    client = TestClient(
        application(library, PORT, TOKEN, going_on=going_on), base_url=f"http://127.0.0.1:{PORT}"
    )
    page = client.get("/runs/run/case", params={"token": TOKEN, "id": "k0"}).text
    assert fault in page and 'data-state="/runs/run/state?id=k0"' in page
    state = client.get("/runs/run/state", params={"id": "k0"})
    assert state.json() == {"status": "waiting", "going": "failed"}
    assert client.get("/runs/run/state", params={"id": "k1"}).status_code == 404
    assert client.get("/runs/run/state").status_code == 404
    library.close()


def test_a_review_that_comes_in_meanwhile_starts_one_more_session(run: Path) -> None:
    begun: list[Path] = []

    def command(path: Path) -> list[str]:
        if not begun:
            going_on.start(path)
        begun.append(path)
        return ["true"]

    going_on = GoingOn(command)
    going_on.start(run)
    wait_for_end()
    assert begun == [run, run]


def test_it_waits_until_no_other_process_writes_the_run(run: Path) -> None:
    states: list[Progress | None] = []
    held = ExitStack()

    class Waiting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            states.append(going_on.progress(run))
            held.close()
            return False

    going_on = GoingOn(lambda _: ["false"])
    going_on._closed = Waiting()
    held.enter_context(locked(run))
    going_on.start(run)
    wait_for_end()
    assert states == [Progress("held")]


def test_the_end_of_the_viewer_ends_its_processes(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    words = f"trap 'kill $!; exit 130' TERM; sleep 60 & echo $$ > {tmp_path}/begun; wait"
    going_on = GoingOn(lambda _: ["sh", "-c", words])
    going_on.start(run)
    pid = int((tmp_path / "begun").read_text())
    assert os.getsid(pid) == pid, "Ctrl-C would end it as well"
    assert going_on.progress(run) == Progress("running")
    going_on.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "resume run"]
    assert going_on.progress(run) is None
    going_on.start(run)
    assert going_on.progress(run) is None


def test_no_process_starts_once_the_viewer_ends(run: Path, tmp_path: Path) -> None:
    def command(_: Path) -> list[str]:
        going_on._closed.set()
        return ["touch", str(tmp_path / "begun")]

    going_on = GoingOn(command)
    going_on.start(run)
    wait_for_end()
    assert not (tmp_path / "begun").exists()


def test_without_a_command_nothing_goes_on(run: Path) -> None:
    going_on = GoingOn()
    going_on.start(run)
    assert (going_on.possible, going_on.progress(run)) == (False, None)
