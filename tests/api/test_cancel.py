"""Runs that are cancelled stay so; runs that a service has stopped go on with the next one."""

from __future__ import annotations

import json
import os
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from api import runner
from api.offer import Limits
from runs.execute.sessions import start
from runs.record.folder import RunFolder
from tests.api.services import HELD, Place, until

CASES = {
    "cases": [
        {"case_id": str(number), "question": "Why?", "sentences": ["A drain was placed.", "It leaked."]}
        for number in range(4)
    ]
}


def test_a_queued_and_a_running_run_are_cancelled_for_good(place: Place) -> None:
    with place.client(Limits(running=1)) as client:
        with place.held("answer"):
            running = client.submitted()
            client.until(running, "running")
            queued = client.submitted()
            for id_ in (queued, running, queued):
                answer = client.call("POST", f"/v1/runs/{id_}/cancel")
                assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
            client.ended(running)
        assert not (place.root / queued / "run.json").exists()
        assert client.events(running)[-1]["data"]["status"] == "cancelled"
        calls = place.calls
    with place.client() as client:
        assert [client.ended(id_)["status"] for id_ in (queued, running)] == ["cancelled"] * 2
        assert place.calls == calls
    log = [json.loads(one) for one in (place.root / running / "audit.jsonl").read_text().splitlines()]
    assert {(one["event"], one["person"]) for one in log} >= {("cancelled", "admin")}


def test_a_service_that_ends_stops_runs_and_the_next_one_pays_nothing_twice(place: Place) -> None:
    with place.client(Limits(running=1)) as client, place.held("answer"):
        running, queued = client.submitted(CASES), client.submitted()
        client.until(running, "running")
        client.service.drain(0.0)
        assert client.status(running)["status"] == "interrupted"
        assert client.status(queued)["status"] == "queued"
        assert client.http.get("/readyz").status_code == 503
        assert client.http.get("/healthz").status_code == 200
        assert client.submit().status_code == 503
    with place.client() as client:
        for id_, cases in ((running, 4), (queued, 1)):
            assert client.ended(id_)["cases"]["done"] == cases
    counts = Counter(one for one in place.calls if one.startswith("label"))
    assert set(counts.values()) == {1}


def test_a_job_without_descriptors_waits_and_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_DESCRIPTORS_WAIT", 0.2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with place.client() as client:
        try:
            (place.folder / "exhaust").touch()
            # The tests before may have left many open.
            highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 256, hard))
            id_ = client.submitted()
            session = client.service.runner.session(client.service.jobs.all()[0])
            until(lambda: session.fault, lambda fault: "Too many open files" in fault)
            assert session.state == "running"
        finally:
            while HELD:
                os.close(HELD.pop())
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        found = client.ended(id_)
        assert (found["status"], found["cases"]["done"]) == ("finished", 1)


def test_a_panic_for_want_of_descriptors_leaves_no_job_running(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_DESCRIPTORS_WAIT", 0.0)
    panics = ['`Err` value: Os { code: 24, message: "Too many open files" }']

    async def panicking(*given: Any, **named: Any) -> RunFolder:
        if panics:
            raise BaseException(panics.pop())
        return await start(*given, **named)

    monkeypatch.setattr("api.runner.start", panicking)
    with place.client() as client:
        found = client.ended(client.submitted())
        assert (found["status"], found["cases"]["done"]) == ("finished", 1)
        panics.append("index out of bounds")
        found = client.ended(client.submitted())
        assert (found["status"], found["fault"]) == ("failed", "internal error: BaseException")
