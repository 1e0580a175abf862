"""Runs that are cancelled stay so; runs that a service has stopped go on with the next one."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api import runner
from api.bodies import Submission
from api.callers import Caller
from api.jobs import Jobs
from api.offer import Limits
from api.problems import Refused
from api.server import ByService
from api.service import Service
from runs.execute.batch import Options
from runs.execute.sessions import start
from runs.record.folder import RunFolder
from runs.record.manifest import BudgetCaps
from serving.protocol.errors import ModelError
from tests.api.services import HELD, QUESTION, Place, until
from viewer.going_on import Progress

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


def test_only_an_admin_cancels_what_is_somebody_elses(place: Place) -> None:
    with place.service() as service, place.held("label"):
        job, _ = service.submit(Caller("ana", "submit"), Submission(**QUESTION), None)
        with pytest.raises(Refused, match="is somebody else's; an admin may cancel it") as refused:
            service.cancel(Caller("ben", "submit"), job)
        assert (refused.value.status_code, job.record.closed) == (403, None)
        assert service.cancel(Caller("ben", "admin"), job).status == "cancelled"


def test_a_run_that_was_stopped_is_cancelled_with_a_line_in_its_log(place: Place) -> None:
    with place.client() as client, place.held("answer"):
        id_ = client.submitted()
        until(lambda: place.calls, lambda calls: "answer note 0" in calls)
        client.service.drain(0.0)
        assert client.call("POST", f"/v1/runs/{id_}/cancel").json()["status"] == "cancelled"
    log = [json.loads(one) for one in (place.root / id_ / "audit.jsonl").read_text().splitlines()]
    assert [one["person"] for one in log if one["event"] == "cancelled"] == ["admin"]


def test_a_run_that_does_not_stop_is_cut_off_and_goes_on_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_LAST_WORDS", 0.0)
        patched.setattr("api.runner.start", endless)
        with place.client() as client:
            id_ = client.submitted()
            client.until(id_, "running")
            client.service.drain(0.0)
            assert client.status(id_)["fault"] == ""
    with place.client() as client:
        assert client.ended(id_)["status"] == "finished"


def test_a_damaged_run_does_not_keep_the_service_from_starting(place: Place) -> None:
    with place.client() as client:
        id_ = client.submitted()
        client.ended(id_)
    (place.root / id_ / "run.json").write_text("{")
    with place.client() as client:
        session = client.service.runner.session(client.service.jobs.all()[0])
        assert (session.state, "run.json" in session.fault) == ("rest", True)
        assert client.ended(client.submitted())["status"] == "finished"


def test_a_server_of_a_model_that_does_not_start_ends_the_service(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses(*_: Any) -> None:
        raise ModelError("no such weights")

    monkeypatch.setattr("api.runner.Servers.addresses", addresses)
    jobs = Jobs(place.root)
    service = Service(jobs, place.offer(Limits()), Options("run"), "Olga")
    with pytest.raises(ModelError, match="no such weights"):
        service.start()
    assert not service.ready
    jobs.close()


def test_a_budget_stops_a_run_for_good(place: Place) -> None:
    with place.service() as service:
        service.runner._options = replace(service.runner._options, budget=BudgetCaps(max_tokens=1))
        job, _ = service.submit(Caller("ana", "submit"), Submission(**QUESTION), None)
        until(lambda: service.runner.session(job).state, lambda state: state == "rest")
        assert (job.record.closed, "budget" in job.record.fault) == ("stopped", True), job.record.fault


def test_a_run_that_is_wanted_again_while_it_runs_is_looked_at_when_it_ends(place: Place) -> None:
    with place.service() as service:
        with place.held("answer"):
            job, _ = service.submit(Caller("ana", "submit"), Submission(**QUESTION), None)
            until(lambda: place.calls, lambda calls: "answer note 0" in calls)
            going_on = ByService(service)
            assert going_on.progress(job.path) == Progress("running")
            going_on.start(job.path)
            assert service.runner.session(job).again
        until(lambda: service.runner.session(job).state, lambda state: state == "rest")
        assert service.status(job).status == "finished"
        assert len(place.calls) == len({*place.calls}), "nothing was asked twice"
        assert going_on.progress(job.path) is going_on.progress(place.root / "unknown") is None
        service.runner.session(job).fault = "no disk"
        assert going_on.progress(job.path) == Progress("failed", "no disk")
