"""Runs on a Ray cluster of several nodes on this machine, while nodes and processes come and go."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runs.on_ray.worker import PACKAGES
from runs.record.folder import CASES, RunFolder
from runs.upkeep.check import check
from tests.evigraph import COMMAND, resident_mb, write_cases, write_recipe
from tests.runs.held_runs import HeldRun

pytestmark = pytest.mark.scale

CASES_OF_A_RUN = 12
CASES_OF_A_LONG_RUN = int(os.environ.get("EVIGRAPH_TEST_CASES", "5000"))
WARM = 500
"""Cases after which memory has what it keeps."""

MAX_GROWTH_MB = 128 * max(CASES_OF_A_LONG_RUN / 100_000, 0.15)
"""128 MB for 100,000 cases; below 15,000 what differs between two runs is more than their share."""
SCRIPT = """\
import asyncio, os, socket
from serving.backends.scripted import made_up_reply

FOLDER = {folder!r}

async def count(call):
    if call.role == "probe":
        return made_up_reply(call)
    with open(FOLDER + "/calls.txt", "a") as file:
        file.write(f"{{call.role}} {{call.case_id}} {{call.sample}} {{os.getpid()}}\\n")
    while os.path.exists(FOLDER + "/held"):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    if os.path.exists(FOLDER + "/raising-" + call.case_id):
        raise ZeroDivisionError("inside of a case")
    if os.path.exists(FOLDER + "/calling-" + call.case_id):
        socket.create_connection(("192.0.2.77", 9), 1)
    if os.path.exists(FOLDER + "/deadly-" + call.case_id):
        os._exit(1)
    return made_up_reply(call)
"""


@dataclass(slots=True)
class Place(HeldRun):
    """A folder with cases, a script that writes down its calls, and a cluster without workers."""

    cluster: Any
    nodes: list[Any] = field(default_factory=list)

    def add_node(self) -> Any:
        self.nodes.append(_started(lambda: self.cluster.add_node(num_cpus=1)))
        return self.nodes[-1]

    def remove_node(self, node: Any) -> None:
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)

    def begin(self, *words: str | Path, session: str = "run", on_ray: bool = True) -> subprocess.Popen[bytes]:
        script = f"scripted:{self.folder / 'script.py'}:count"
        given = ["tamu", "cases.jsonl", "--model", script, "--recipe", "lexical.yaml", "--out", "out"]
        cluster = ["--on", f"ray://{self.cluster.address}"] if on_ray else []
        with (self.folder / "said.txt").open("ab") as said:
            return subprocess.Popen(
                [*COMMAND, session, *(given if session == "run" else ["out"]), *cluster, *map(str, words)],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    @property
    def calls(self) -> list[tuple[str, int]]:
        """Each call with the process that made it."""
        path = self.folder / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(call, int(process)) for call, _, process in (line.rpartition(" ") for line in lines)]

    def twice(self) -> Counter[str]:
        """Calls that were made again."""
        return Counter(call for call, _ in self.calls) - Counter({call for call, _ in self.calls})


def _started(start: Callable[[], Any]) -> Any:
    """Ray gives a node 30 s to start, and a busy machine may need more."""
    for _ in range(4):
        with contextlib.suppress(Exception):
            return start()
    return start()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False}
    made = _started(lambda: Cluster(initialize_head=True, head_node_args=head))
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """`cases.jsonl` of one machine."""
    place = _prepared(tmp_path_factory.mktemp("whole"), None)
    assert place.begin(on_ray=False).wait(timeout=300) == 0, place.said
    return (place.folder / "out" / CASES).read_bytes()


@pytest.fixture
def place(tmp_path: Path, cluster: Any) -> Iterator[Place]:
    made = _prepared(tmp_path, cluster)
    yield made
    for node in list(made.nodes):
        made.remove_node(node)


def _prepared(folder: Path, cluster: Any) -> Place:
    write_cases(folder / "cases.jsonl", CASES_OF_A_RUN)
    write_recipe(folder)
    (folder / "script.py").write_text(SCRIPT.format(folder=str(folder)))
    return Place(folder, cluster)


def _processes(place: Place) -> set[int]:
    return {process for _, process in place.calls}


def _assert_whole(place: Place, whole: bytes) -> None:
    assert (place.folder / "out" / CASES).read_bytes() == whole
    assert not check(RunFolder(place.folder / "out")).faults
    # Nothing lost, and whatever was asked again was in flight when its process was lost.
    assert len({call for call, _ in place.calls}) == place.stored()


def _tell(place: Place, fault: str, in_flight: int) -> None:
    """A row of the table of faults, for `pytest -s`."""
    calls, rows, again = len(place.calls), place.stored(), place.twice().total()
    sys.stdout.write(f"\n{fault}: {calls} calls, {rows} stored, {in_flight} in flight, {again} asked again\n")


def test_two_nodes_run_what_one_machine_does(place: Place, whole: bytes) -> None:
    place.add_node(), place.add_node()
    assert place.begin().wait(timeout=300) == 0, place.said
    _assert_whole(place, whole)
    assert not place.twice()
    assert len(_processes(place)) == 2
    (session,) = RunFolder(place.folder / "out").manifest.sessions
    assert session.calls == place.stored()


def test_a_killed_worker_costs_the_calls_in_flight(place: Place, whole: bytes) -> None:
    place.add_node(), place.add_node()
    run = place.begin("--max-connections", "8")
    place.wait(lambda: len(_processes(place)) == 2 and len(place.calls) > 16)
    place.hold()
    killed = place.calls[-1][1]
    before = len(place.calls) - place.stored()
    os.kill(killed, signal.SIGKILL)
    place.release()
    assert run.wait(timeout=300) == 0, place.said
    _assert_whole(place, whole)
    assert 0 < place.twice().total() <= before
    assert {call for call, process in place.calls if process == killed} >= set(place.twice())
    assert "was lost" in place.said
    _tell(place, "worker killed", before)


def test_cases_of_a_removed_node_go_on_elsewhere(place: Place, whole: bytes) -> None:
    place.add_node()
    leaving = place.add_node()
    run = place.begin("--max-connections", "8")
    place.wait(lambda: len(_processes(place)) == 2 and len(place.calls) > 16)
    place.hold()
    before = len(place.calls) - place.stored()
    place.remove_node(leaving)
    place.release()
    assert run.wait(timeout=300) == 0, place.said
    _assert_whole(place, whole)
    assert 0 < place.twice().total() <= before
    _tell(place, "node removed", before)


def test_a_node_that_comes_gets_a_worker(place: Place, whole: bytes) -> None:
    place.add_node()
    (place.folder / "held").touch()
    run = place.begin("--max-connections", "8", "--concurrency", "4")
    place.wait(lambda: place.calls)
    place.add_node()
    place.release()
    (place.folder / "held").touch()
    place.wait(lambda: "has joined" in place.said)
    place.release()
    assert run.wait(timeout=300) == 0, place.said
    _assert_whole(place, whole)
    assert not place.twice()
    assert len(_processes(place)) == 2


def test_a_killed_run_is_resumed(place: Place, whole: bytes) -> None:
    place.add_node(), place.add_node()
    run = place.begin("--max-connections", "8")
    place.wait(lambda: len(place.calls) > 30)
    place.hold()
    before = len(place.calls) - place.stored()
    run.kill()
    run.wait()
    first = _processes(place)
    place.wait(lambda: not any(Path(f"/proc/{process}").exists() for process in first))
    place.release()
    assert place.begin(session="resume").wait(timeout=300) == 0, place.said
    _assert_whole(place, whole)
    assert 0 < place.twice().total() <= before
    _tell(place, "run killed", before)


def test_a_case_that_raises_fails_alone_and_is_retried(place: Place, whole: bytes) -> None:
    place.add_node(), place.add_node()
    (place.folder / "raising-k5").touch()
    assert place.begin("--max-retries", "0").wait(timeout=300) == 1, place.said
    assert RunFolder(place.folder / "out").statuses()["k5"] == "failed:internal"
    (place.folder / "raising-k5").unlink()
    assert place.begin(session="retry").wait(timeout=300) == 0, place.said
    assert (place.folder / "out" / CASES).read_bytes() == whole
    assert {call.split()[1] for call in place.twice()} == {"k5"}


def test_a_case_that_ends_its_workers_fails_alone(place: Place, whole: bytes) -> None:
    place.add_node(), place.add_node()
    (place.folder / "deadly-k5").touch()
    assert place.begin("--max-retries", "0", "--max-connections", "8").wait(timeout=300) == 1, place.said
    statuses = RunFolder(place.folder / "out").statuses()
    assert {case_id for case_id, status in statuses.items() if status != "done"} == {"k5"}
    assert len(statuses) == CASES_OF_A_RUN
    (place.folder / "deadly-k5").unlink()
    assert place.begin(session="retry").wait(timeout=300) == 0, place.said
    assert (place.folder / "out" / CASES).read_bytes() == whole


def test_a_signal_stops_it_and_it_is_resumed(place: Place, whole: bytes) -> None:
    place.add_node()
    run = place.begin("--max-connections", "4")
    place.wait(lambda: len(place.calls) > 10)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=120) == 130, place.said
    assert place.begin(session="resume").wait(timeout=300) == 0, place.said
    _assert_whole(place, whole)


def test_a_budget_holds_for_all_workers(place: Place) -> None:
    place.add_node(), place.add_node()
    assert place.begin("--max-tokens-total", "20000").wait(timeout=300) == 1, place.said
    manifest = RunFolder(place.folder / "out").manifest
    assert 0 < manifest.total_tokens <= 20_000
    assert manifest.sessions[-1].stopped_by
    assert manifest.counts.done > 0


def test_other_code_is_refused_by_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    other = place.folder / "other"
    other.mkdir()
    for package in PACKAGES:
        (other / package).symlink_to(Path(__file__).parents[2] / package)
    (other / "prompts").unlink()
    (other / "prompts").mkdir()
    for path in (Path(__file__).parents[2] / "prompts").iterdir():
        (other / "prompts" / path.name).symlink_to(path)
    (other / "prompts" / "new.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(other))
    place.add_node()
    monkeypatch.undo()
    assert place.begin().wait(timeout=300) == 2
    assert "has other code of this version" in place.said
    assert not (place.folder / "out").exists()


def test_the_policy_of_the_cases_binds_workers(place: Place, whole: bytes) -> None:
    (place.folder / "policy.yaml").write_text("name: notes\nhosts: [loopback]\n")
    (place.folder / "calling-k5").touch()
    place.add_node()
    assert place.begin("--max-retries", "0").wait(timeout=300) == 1, place.said
    line = RunFolder(place.folder / "out").require_case("k5")
    assert "policy 'notes'" in line["error"]["message"] and "192.0.2.77" in line["error"]["message"]
    (place.folder / "calling-k5").unlink()
    assert place.begin(session="retry").wait(timeout=300) == 0, place.said
    assert (place.folder / "out" / CASES).read_bytes() == whole


def test_a_long_run_is_whole_and_the_memory_of_its_driver_flat(place: Place) -> None:
    """As many as `EVIGRAPH_TEST_CASES` says; 100,000 took eight minutes."""
    place.add_node(), place.add_node()
    write_cases(place.folder / "many.jsonl", CASES_OF_A_LONG_RUN)
    (place.folder / "direct.yaml").write_text("system: direct\nanswer: {corrections: 0}\n")
    words = ["direct", "many.jsonl", "--recipe", "direct.yaml", "--model", "scripted:auto", "--out", "out"]
    with (place.folder / "said.txt").open("ab") as said:
        run = subprocess.Popen(
            [*COMMAND, "run", *words, "--on", f"ray://{place.cluster.address}"],
            cwd=place.folder,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
    lines = place.folder / "out" / CASES
    place.wait(lambda: lines.exists() and lines.read_bytes().count(b"\n") >= WARM)
    readings = []
    while run.poll() is None:
        # Between its end and the look at its exit code it has no memory.
        with contextlib.suppress(AssertionError):
            readings.append(resident_mb(run.pid))
        time.sleep(0.2)
    assert run.returncode == 0, place.said
    ended = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [line["case_id"] for line in ended] == [f"k{number}" for number in range(CASES_OF_A_LONG_RUN)]
    assert sum(line["usage"]["calls"] for line in ended) == place.stored() == CASES_OF_A_LONG_RUN
    assert RunFolder(place.folder / "out").manifest.sessions[-1].calls == CASES_OF_A_LONG_RUN
    first, most = readings[0], max(readings)
    assert most - first < MAX_GROWTH_MB
    sys.stdout.write(f"\n{CASES_OF_A_LONG_RUN:,} cases: {first:.0f} MB after {WARM}, {most:.0f} MB at most\n")


def test_neither_texts_nor_keys_are_in_rays_files(
    place: Place, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody-4711")
    (place.folder / "raising-k5").touch()
    place.add_node()
    assert place.begin("--max-retries", "0").wait(timeout=300) == 1, place.said
    files = [path for path in Path(cluster.head_node.get_session_dir_path()).rglob("*") if path.is_file()]
    assert any("worker" in path.name for path in files)
    for path in files:
        content = path.read_bytes()
        assert b"sk-of-nobody-4711" not in content, path
        assert b"Why was procedure" not in content and b"I still think about" not in content, path
