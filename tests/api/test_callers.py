"""Who may do what, and how often."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from access import users as users_module
from access.sessions import ATTEMPTS, WINDOW, Person, sign_in_for_request
from access.users import ROLES, Users
from api.callers import RIGHTS, Caller, OneToken, Rate, UserTokens
from api.offer import Limits
from api.problems import Refused
from api.server import shown
from tests.api.services import QUESTION, Client, Place
from viewer.library import Library

NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)


@pytest.mark.parametrize("given", [None, "Basic eA==", "Bearer", "Bearer wrong", "Bearer \u00e9"])
def test_without_a_valid_token_nothing_is_said(client: Client, given: str | None) -> None:
    headers: dict[bytes, bytes] = {} if given is None else {b"Authorization": given.encode("latin-1")}
    id_ = client.submitted()
    paths = [
        "/v1/runs",
        f"/v1/runs/{id_}",
        f"/v1/runs/{id_}/cases/note",
        f"/v1/runs/{id_}/events",
        "/metrics",
    ]
    for path in [*paths, "/v1/choices", "/v1/runs/unknown"]:
        answer = client.http.get(path, headers=headers)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"


def test_each_role_may_do_what_it_is_for(client: Client) -> None:
    id_ = client.submitted()
    client.ended(id_)
    review = f"/v1/runs/{id_}/cases/note/review"
    wanted = {
        ("GET", f"/v1/runs/{id_}"): "view",
        ("GET", f"/v1/runs/{id_}/cases/note"): "view",
        ("GET", f"/v1/runs/{id_}/events"): "view",
        ("POST", "/v1/runs"): "submit",
        ("POST", f"/v1/runs/{id_}/cancel"): "submit",
        ("GET", review): "review",
        ("POST", review): "review",
    }
    for role, rights in RIGHTS.items():
        for (method, path), right in wanted.items():
            body: dict[str, Any] = {}
            if method == "POST":
                body = {"json": {"comment": "Fine."} if path == review else QUESTION}
            answer = client.call(method, path, role, **body)
            # The run is the admin's, whose role says so.
            theirs = role == "submit" and path != "/v1/runs"
            refused = 403 if right not in rights else 404 if theirs else None
            found = answer.status_code if answer.status_code in (403, 404) else None
            assert found == refused, (role, method, path, answer.text)


def test_runs_are_their_submitters_unless_a_role_says_more(client: Client, place: Place) -> None:
    ids = {
        role: client.call("POST", "/v1/runs", role, json=QUESTION).json()["id"]
        for role in ("submit", "admin")
    }
    for id_ in ids.values():
        client.ended(id_)
    listed = {
        role: {one["id"] for one in client.call("GET", "/v1/runs", role).json()["runs"]} for role in RIGHTS
    }
    assert listed == {role: {ids["submit"]} if role == "submit" else {*ids.values()} for role in RIGHTS}
    of_admin = ("", "/events", "/cases", "/cases/note")
    assert {
        client.call("GET", f"/v1/runs/{ids['admin']}{end}", "submit").status_code for end in of_admin
    } == {404}
    assert client.call("POST", f"/v1/runs/{ids['admin']}/cancel", "submit").status_code == 404
    # Theirs has ended, which only they and an admin are told by a cancel.
    cancel = f"/v1/runs/{ids['submit']}/cancel"
    codes = {role: client.call("POST", cancel, role).status_code for role in RIGHTS}
    assert codes == {"view": 403, "submit": 409, "review": 403, "admin": 409}
    library = Library([place.root], visible=lambda path: shown(client.service, path))
    assert len(library.names()) == 2, "the link of a viewer without users shows all runs"
    for person, count in ((Person("submit", "submit", "s"), 1), (Person("vera", "view", "s"), 2)):
        leave = sign_in_for_request(person)
        assert len(library.names()) == count
        assert (library.get(ids["admin"]) is None) == (count == 1)
        leave()
    library.close()


def test_the_rate_is_of_each_user(place: Place) -> None:
    now = [0.0]
    with place.client(Limits(per_minute=3), lambda: now[0]) as client:
        served = [client.call("GET", "/v1/runs", "view").status_code for _ in range(4)]
        assert served == [200, 200, 200, 429]
        refused = client.call("GET", "/v1/runs", "view")
        assert refused.headers["retry-after"] == "20"
        assert client.call("GET", "/v1/runs", "review").status_code == 200
        now[0] = 19.0
        assert client.call("GET", "/v1/runs", "view").status_code == 429
        now[0] = 20.5
        assert client.call("GET", "/v1/runs", "view").status_code == 200
        assert client.call("GET", "/v1/runs", "view").status_code == 429


def test_a_bucket_holds_no_more_than_a_minute() -> None:
    now = [0.0]
    rate = Rate(60, lambda: now[0])
    now[0] = 1e6
    assert [rate.take("a") == 0 for _ in range(61)] == [True] * 60 + [False]


def test_the_printed_token_opens_everything_and_no_other_does() -> None:
    one = OneToken("right", "Olga")
    assert asyncio.run(one.caller("right", "")) == Caller("Olga", "admin")
    assert one.valid(Caller("Olga", "admin"))
    assert asyncio.run(one.caller("righ", "")) is None


def test_every_role_of_the_list_of_users_has_rights() -> None:
    assert set(ROLES) == set(RIGHTS)


def test_a_users_token_is_looked_at_once_and_follows_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, now = Users(tmp_path / "users.json"), [NOW]
    made, token = users.add("ana", "review", NOW, days=1)
    hashed = []
    real = users_module._hashed

    def counted(*given: Any) -> str:
        hashed.append(1)
        return real(*given)

    monkeypatch.setattr(users_module, "_hashed", counted)
    tokens = UserTokens(users, lambda: 0.0, lambda: now[0])

    async def look() -> None:
        found = await tokens.caller(token, "1.1.1.1")
        assert found == Caller("ana", "review", made.id) and tokens.valid(found)
        assert await tokens.caller(token, "1.1.1.1") == found
        assert len(hashed) == 1
        renewed, other = users.add("ana", "view", NOW, days=1, renew=True)
        hashed.clear()
        assert await tokens.caller(token, "1.1.1.1") is None and not tokens.valid(found)
        found = await tokens.caller(other, "1.1.1.1")
        assert found == Caller("ana", "view", renewed.id)
        now[0] = NOW.replace(day=25)
        assert await tokens.caller(other, "1.1.1.1") is None and not tokens.valid(found)
        now[0] = NOW
        assert await tokens.caller(other, "1.1.1.1") == found and tokens.valid(found)
        users.remove("ana")
        assert await tokens.caller(other, "1.1.1.1") is None and not tokens.valid(found)
        users.path.write_text("{")
        assert not tokens.valid(found)
        with pytest.raises(Refused, match="the list of users cannot be used: ") as refused:
            await tokens.caller(other, "1.1.1.1")
        assert refused.value.status_code == 503

    asyncio.run(look())


def test_wrong_tokens_of_one_client_are_soon_not_looked_at(tmp_path: Path) -> None:
    users, now = Users(tmp_path / "users.json"), [0.0]
    ana, token = users.add("ana", "view", NOW)
    ben, other = users.add("ben", "view", NOW)
    tokens = UserTokens(users, lambda: now[0], lambda: NOW)

    async def look() -> None:
        for wrong in ("wrong", f"{token}x"):
            for _ in range(ATTEMPTS):
                assert await tokens.caller(wrong, "1.1.1.1") is None
            with pytest.raises(Refused) as refused:
                await tokens.caller(wrong, "1.1.1.1")
            assert refused.value.status_code == 429
        # Others behind the same proxy are served, and so is this one from another place, and later.
        assert await tokens.caller(other, "1.1.1.1") == Caller("ben", "view", ben.id)
        with pytest.raises(Refused):
            await tokens.caller(token, "1.1.1.1")
        assert await tokens.caller(token, "2.2.2.2") == Caller("ana", "view", ana.id)
        now[0] = WINDOW
        assert await tokens.caller(token, "1.1.1.1") == Caller("ana", "view", ana.id)

    asyncio.run(look())


def test_tokens_without_end_take_no_memory_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.callers._MOST_KNOWN", 2)
    monkeypatch.setattr(users_module, "_COST", (2, 8, 1))
    users = Users(tmp_path / "users.json")
    tokens = UserTokens(users, lambda: 0.0, lambda: NOW)
    known = []
    for name in ("ana", "ben", "cy"):
        found = asyncio.run(tokens.caller(users.add(name, "view", NOW)[1], "1.1.1.1"))
        known.append((found and found.name, len(tokens._known)))
    assert known == [("ana", 1), ("ben", 2), ("cy", 1)]
