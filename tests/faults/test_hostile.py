"""Some of the inputs of `python -m tools.hostile`: no traceback, no hang, no text in a wrong place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.hostile import files, requests, servers
from tools.hostile.__main__ import table
from tools.hostile.judging import UNSAFE, Found, Outcome, judge_command, markup_faults
from tools.hostile.texts import TEXTS
from tools.hostile.worker import Ended, Worker

KINDS = [*files.KINDS, "a server", "a server again", *(f"request {number}" for number in range(22))]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def worker(shared: Path) -> Iterator[Worker]:
    worker = Worker()
    files.prepare(worker, shared)
    yield worker
    worker.end()


@pytest.fixture(scope="module")
def viewer(shared: Path, worker: Worker) -> Iterator[requests.Viewer]:
    with requests.Viewer(shared) as viewer:
        yield viewer


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_does_no_harm(
    kind: str, worker: Worker, shared: Path, viewer: requests.Viewer, tmp_path: Path
) -> None:
    draw, marker = random.Random(kind), f"MARK{KINDS.index(kind):03}Z"
    if kind in files.KINDS:
        outcome = files.play(kind, worker, shared, tmp_path, marker, draw)
    elif kind.startswith("a server"):
        outcome = servers.play(worker, shared, tmp_path, marker, draw)
    else:
        outcome = requests.play(viewer, marker, draw)
    assert outcome.faults == (), outcome.trick


@pytest.mark.parametrize(
    ("ended", "fault"),
    [
        (Ended(("show",), 1, b"", b"evigraph: internal error: x\n", 1, 1, 1), "internal error"),
        (Ended(("show",), 0, b"\x1b[31m", b"", 1, 1, 1), "U+001B raw"),
        (Ended(("show",), 0, "\u202e".encode(), b"", 1, 1, 1), "U+202E raw"),
        (Ended(("show",), 0, b"\xff", b"", 1, 1, 1), "not UTF-8"),
        (Ended(("show",), 0, b"M49", b"", 1, 1, 1), "a template was filled"),
        (Ended(("show",), None, b"", b"", 1, 1, 1), "no end"),
        (Ended(("show",), -1, b"", b"Traceback", 1, 1, 1), "Traceback"),
        (Ended(("show",), 2, b"", b"x\n" * 20, 1, 1, 1), "20 lines"),
        (Ended(("show",), 2, b"", b"", 1, 1, 1), "no reason"),
        (Ended(("show", "--json"), 0, b"{", b"", 1, 1, 1), "no JSON"),
        (Ended(("show",), 0, b"", b"", 1, 5000, 1), "5,000 MB"),
        (Ended(("show",), 0, b"", b"", 1, 1, 99), "99 s of processor time"),
    ],
)
def test_harm_is_seen(ended: Ended, fault: str) -> None:
    found = Found()
    judge_command(ended, "M", found)
    assert any(fault in one for one in found.faults), found.faults


@pytest.mark.parametrize("name", ["HTML", "attributes", "terminal escapes", "bidi overrides"])
def test_raw_markup_is_seen(name: str) -> None:
    assert [*markup_faults(f"<p>{TEXTS[name]('M')}</p>", "M")]
    assert UNSAFE.search(TEXTS["C1 controls"]("M"))


def test_outcomes_are_counted() -> None:
    found = [Outcome("keys", "x", "refused"), Outcome("keys", "x", "taken", ("harm",))]
    assert table(found).splitlines()[-1].split() == ["all", "2", "1", "0", "1", "1"]
