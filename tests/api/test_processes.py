"""The service as a process: killed, drained, and refused where it may not be served."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from runs.record.folder import RunFolder
from runs.upkeep.check import check
from tests.api.processes import Process
from tests.api.services import LAST, QUESTION, Place, parsed, until
from tests.evigraph import evigraph

CASES = {
    "cases": [
        {"case_id": f"k{number}", "question": "Why?", "sentences": ["A drain was placed.", "It leaked."]}
        for number in range(12)
    ]
}


@pytest.fixture
def start(place: Place) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def one(*more: str | Path) -> Process:
        started.append(Process(place, *more))
        return started[-1]

    yield one
    for process in started:
        process.close()


def test_a_killed_service_loses_nothing_and_nothing_is_paid_twice(
    place: Place, start: Callable[..., Process]
) -> None:
    # One run in the middle of its cases, one that waits for its turn, and a stream that is open.
    first = start("--max-running", "1", "--concurrency", "2")
    with place.held("answer"):
        running, queued = first.submit(CASES), first.submit(QUESTION)
        until(lambda: sum(one.startswith("answer") for one in place.calls), lambda count: count == 2)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        in_flight = Counter(one for one in place.calls if one.startswith("answer"))
        before = Counter(place.calls)
    second = start("--max-running", "1", "--concurrency", "2")
    assert "2 runs of before go on" in second.said()
    assert second.until(running, "finished")["cases"]["done"] == 12
    assert second.until(queued, "finished")["cases"]["done"] == 1
    # Only what was in flight at the kill is asked again; every other call was stored before.
    twice = Counter(place.calls) - before
    assert {one for one in twice if one in before and not one.startswith("probe")} <= set(in_flight)
    events = parsed(second.http.get(f"/v1/runs/{running}/events").text)
    ended = [one["data"]["case_id"] for one in events if one["event"] == "case"]
    assert sorted(ended) == sorted(f"k{number}" for number in range(12))
    assert second.end(signal.SIGTERM) == 0
    for id_ in (running, queued):
        assert check(RunFolder(place.root / id_)).faults == []


def test_sigterm_drains_and_the_page_of_a_stream_comes_back(
    place: Place, start: Callable[..., Process]
) -> None:
    first = start("--drain", "600")
    with place.held("answer"):
        id_ = first.submit(QUESTION)
        until(lambda: any(one.startswith("answer") for one in place.calls), bool)
        first.process.send_signal(signal.SIGTERM)
        until(lambda: first.http.get("/readyz").status_code, lambda code: code == 503)
        # It still answers who asks, and takes nothing new.
        assert first.http.get(f"/v1/runs/{id_}").json()["status"] == "running"
        assert first.http.post("/v1/runs", json=QUESTION).status_code == 503
    assert first.process.wait(LAST) == 0
    assert RunFolder(place.root / id_).manifest.status == "finished"


def test_a_second_signal_does_not_wait(place: Place, start: Callable[..., Process]) -> None:
    first = start("--drain", "600")
    with place.held("answer"):
        id_ = first.submit(QUESTION)
        until(lambda: any(one.startswith("answer") for one in place.calls), bool)
        first.process.send_signal(signal.SIGTERM)
        until(lambda: first.http.get("/readyz").status_code, lambda code: code == 503)
        assert first.end(signal.SIGTERM) == 0
    assert RunFolder(place.root / id_).manifest.status == "interrupted"
    second = start()
    assert second.until(id_, "finished")["cases"]["done"] == 1


@pytest.mark.scale
def test_hostile_bodies_leave_no_memory_taken(start: Callable[..., Process]) -> None:
    first = start()
    fresh = first.process.resident_mb
    bodies = {
        b'{"cases":[' + b"1," * 2_000_000 + b"1]}": 413,
        b"[" + b"[]," * 5_500_000 + b"[]]": 413,
        b'{"case":{"more":[' + b"[]," * 149_000 + b"[]]}}": 413,
        b'{"case":{"more":' + b"[" * 290_000 + b"]" * 290_000 + b"}}": 400,
    }
    for _ in range(3):
        for body, status in bodies.items():
            for headers, code in (({}, status), ({"Authorization": "Bearer none"}, 401)):
                kind = {"content-type": "application/json", **headers}
                assert first.http.post("/v1/runs", content=body, headers=kind).status_code == code
    assert first.process.resident_mb < 1.3 * fresh


def test_two_services_do_not_share_a_folder(place: Place, start: Callable[..., Process]) -> None:
    start()
    ended = evigraph("api", place.root, "--model", "scripted:auto", "--port", "0", folder=place.folder)
    assert ended.code == 2
    assert "another process" in ended.line


def test_the_page_is_opened_by_its_link_alone(place: Place, start: Callable[..., Process]) -> None:
    first = start()
    with httpx.Client(follow_redirects=True) as browser:
        assert browser.get(f"{first.address}/ask").status_code == 403
        assert "Ask a question" in browser.get(first.page).text
        assert browser.get(f"{first.address}/").status_code == 200
    # The cookie of the page opens no endpoint, so no other page can call one for a person.
    with httpx.Client(follow_redirects=True) as browser:
        browser.get(first.page)
        assert browser.get(f"{first.address}/v1/runs").status_code == 401


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the model that answers"),
        (("--model", "scripted:auto", "--host", "0.0.0.0"), "give --users FILE"),  # noqa: S104
        (("--model", "a=scripted:auto", "--model", "a=scripted:auto"), "'a' names two models"),
        (("--model", "nothing"), "nothing"),
        (("--model", "scripted:auto", "--recipe", "tamo"), "tamu"),
        (("--model", "scripted:auto", "--users", "users.json"), "users add"),
        (("--model", "openai:gpt-5"), "--allow-hosted"),
    ],
)
def test_a_start_that_makes_no_sense_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ended = evigraph("api", tmp_path / "runs", "--port", "0", *words, folder=tmp_path)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())


def test_a_policy_in_the_folder_of_the_runs_holds_for_all(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "policy.yaml").write_text("name: ours\nhosts: [loopback]\n")
    words = ("--model", "vllm:m@http://gpu.example.org:8000/v1", "--port", "0")
    ended = evigraph("api", tmp_path / "runs", *words, folder=tmp_path)
    assert ended.code == 2
    assert "gpu.example.org may see no text of a case" in ended.line
