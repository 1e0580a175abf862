"""The stream of a run: all of it, from the middle, live, and nothing once the end was seen."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime
from time import monotonic

import httpx
import pytest

from access.users import Users
from api.callers import Caller, Rate, UserTokens
from api.events import Position, State, events
from api.hub import Hub
from api.offer import Limits
from api.routes import application
from runs.record.trace_file import TRACE
from tests.api.services import (
    LAST,
    QUESTION,
    TOKENS,
    Client,
    KnownTokens,
    Place,
    run_of,
    served,
    steps_until,
    until,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)

CASES = {
    "cases": [
        {"case_id": str(number), "question": "Why?", "sentences": ["A drain was placed.", "It leaked."]}
        for number in range(3)
    ]
}


@pytest.mark.parametrize("at_once", [64, 1])
def test_every_line_of_the_trace_is_an_event_with_an_id(
    client: Client, place: Place, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("api.events._AT_ONCE", at_once)
    id_ = client.submitted(CASES)
    client.ended(id_)
    found = client.events(id_)
    lines = [line for _, lines in run_of(place, id_).passes() for line in lines]
    assert [one["data"] for one in found[:-1]] == lines
    kinds = ["case" if line["node"] == "__end__" else "decision" for line in lines]
    assert [one["event"] for one in found] == [*kinds, "end"]
    assert len({one["id"] for one in found}) == len(found)
    assert found[-1]["data"]["status"] == "finished"
    assert found[-1]["data"]["cases"]["done"] == 3


def test_a_client_goes_on_behind_the_event_that_it_saw_last(client: Client) -> None:
    id_ = client.submitted(CASES)
    client.ended(id_)
    found = client.events(id_)
    for place in (0, 1, len(found) // 2, len(found) - 2):
        assert client.events(id_, found[place]["id"]) == found[place + 1 :]
    over = client.call("GET", f"/v1/runs/{id_}/events", headers={"Last-Event-ID": found[-1]["id"]})
    assert (over.status_code, over.content) == (204, b"")


@pytest.mark.parametrize("made_up", ["", "x", "7-1", "7-1-end", "0-0", "-1-2", "9" * 40])
def test_an_id_that_is_none_begins_at_the_beginning(client: Client, made_up: str) -> None:
    id_ = client.submitted()
    client.ended(id_)
    assert client.events(id_, made_up) == client.events(id_)


def test_a_step_is_told_while_its_case_goes_on_and_streams_have_a_limit(place: Place) -> None:
    with place.service(Limits(streams=1)) as service, place.held("answer"):
        app = application(service, KnownTokens(), Rate(600, monotonic))
        with (
            served(app) as address,
            httpx.Client(base_url=address, headers=bearer("submit"), timeout=LAST) as http,
        ):
            id_ = http.post("/v1/runs", json=QUESTION).json()["id"]
            with http.stream("GET", f"/v1/runs/{id_}/events") as stream:
                lines = stream.iter_lines()
                begun = [one["node"] for one in steps_until(lines, "generate_answer")]
                assert begun[-1] == "generate_answer"
                # The model has not answered, so nothing of the case is on disk.
                assert not (place.root / id_ / "cases.jsonl").read_bytes()
                full = http.get(f"/v1/runs/{id_}/events")
                assert (full.status_code, full.json()["status"]) == (503, 503)
                (place.folder / "hold-answer").rename(place.folder / "released")
                assert "event: end" in list(lines)
            until(lambda: service.hub.streams, lambda count: count == 0)
        (place.folder / "released").rename(place.folder / "hold-answer")


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


async def test_who_comes_late_hears_of_what_is_under_way_once() -> None:
    hub = Hub()
    begun = {"execution": "a", "node": "label_evidence", "seconds": None}
    ended = {**begun, "seconds": 1.0}
    hub.tell("run", begun)
    with hub.listening("run") as late:
        assert [*late.steps] == [begun]
        hub.tell("run", ended)
        await late.news.wait()
        assert [*late.steps] == [begun, ended]
    hub.forget("run")
    with hub.listening("run") as later:
        assert not later.steps
        hub.close()
        await asyncio.sleep(0)
        assert hub.closed and later.news.is_set() and not later.steps


def test_a_stream_looks_again_by_itself_and_ends_with_the_service(
    client: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.events._LOOK", 0.0)
    id_ = client.submitted()
    client.ended(id_)
    job, hub = client.service.jobs.get(id_), Hub()
    assert job is not None
    states = [State(True, {"status": "finished"}), *[State(False, {})] * 3]

    async def kinds() -> list[str | None]:
        return [one.event async for one in events(job, Position(), hub, states.pop)]

    assert asyncio.run(kinds())[-2:] == ["case", "end"]
    assert states == []
    hub.close()
    states.append(State(False, {}))
    (place.root / id_ / TRACE).unlink()
    assert asyncio.run(kinds()) == []


async def test_streams_wake_when_the_service_closes() -> None:
    hub = Hub()
    with hub.listening("run") as listener:
        hub.close()
        await asyncio.wait_for(listener.news.wait(), 60)
    assert hub.closed


def test_the_stream_of_a_removed_user_ends_while_its_run_goes_on(place: Place) -> None:
    users = Users(place.folder / "people" / "users.json")
    token = users.add("ana", "submit", NOW)[1]
    with place.service() as service, place.held("answer"):
        app = application(service, UserTokens(users, monotonic, lambda: NOW), Rate(600, monotonic))
        with (
            served(app) as address,
            httpx.Client(
                base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=LAST
            ) as http,
        ):
            id_ = http.post("/v1/runs", json=QUESTION).json()["id"]
            with http.stream("GET", f"/v1/runs/{id_}/events") as stream:
                lines = stream.iter_lines()
                assert [*steps_until(lines, "generate_answer")]
                users.remove("ana")
                # The model answers nothing yet: only the end of the stream ends this.
                assert "event: end" not in [*lines]
            assert service.runner.session(service.jobs.all()[0]).state == "running"


def test_one_caller_leaves_streams_for_others(place: Place) -> None:
    with place.service(Limits(streams=10, streams_each=2)) as service, place.held("answer"):
        app = application(service, KnownTokens(), Rate(600, monotonic))
        with served(app) as address, ExitStack() as stack:
            http = stack.enter_context(httpx.Client(base_url=address, timeout=LAST))
            id_ = http.post("/v1/runs", json=QUESTION, headers=bearer("admin")).json()["id"]
            path = f"/v1/runs/{id_}/events"
            answers = [
                stack.enter_context(http.stream("GET", path, headers=bearer(role)))
                for role in ("admin", "admin", "admin", "review")
            ]
            assert [one.status_code for one in answers] == [200, 200, 429, 200]
            assert int(answers[2].headers["retry-after"]) > 0
            answers[0].close()
            until(lambda: service.hub.streams, lambda count: count == 2)
            assert stack.enter_context(http.stream("GET", path, headers=bearer("admin"))).status_code == 200
            service.cancel(Caller("admin", "admin"), service.jobs.all()[0])
