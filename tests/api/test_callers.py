"""Who may do what, and how often."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.callers import RIGHTS, Caller, OneToken, Rate, UserTokens
from api.offer import Limits
from api.problems import Refused
from tests.api.services import QUESTION, Client, Place
from viewer import users as users_module
from viewer.sessions import ATTEMPTS, WINDOW
from viewer.users import ROLES, Users

NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)


@pytest.mark.parametrize("given", [None, "Basic eA==", "Bearer", "Bearer wrong", "Bearer \u00e9"])
def test_without_a_valid_token_nothing_is_said(client: Client, given: str | None) -> None:
    headers = {} if given is None else {b"Authorization": given.encode("latin-1")}
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
            body = {"json": {"comment": "Fine."} if path == review else QUESTION} if method == "POST" else {}
            answer = client.call(method, path, role, **body)
            assert (answer.status_code == 403) == (right not in rights), (role, method, path, answer.text)


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
    assert asyncio.run(one.caller("righ", "")) is None


def test_every_role_of_the_list_of_users_has_rights() -> None:
    assert set(ROLES) == set(RIGHTS)


def test_a_users_token_is_looked_at_once_and_follows_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, now = Users(tmp_path / "users.json"), [NOW]
    _, token = users.add("ana", "review", NOW, days=1)
    hashed: list[str] = []
    real = users_module._hashed

    def counted(secret: str, salt: str, cost: tuple[int, int, int]) -> str:
        hashed.append(secret)
        return real(secret, salt, cost)

    monkeypatch.setattr(users_module, "_hashed", counted)
    tokens = UserTokens(users, lambda: 0.0, lambda: now[0])

    async def look() -> None:
        assert await tokens.caller(token, "1.1.1.1") == Caller("ana", "review")
        assert await tokens.caller(token, "1.1.1.1") == Caller("ana", "review")
        assert len(hashed) == 1
        _, other = users.add("ana", "view", NOW, days=1, renew=True)
        hashed.clear()
        assert await tokens.caller(token, "1.1.1.1") is None
        assert await tokens.caller(other, "1.1.1.1") == Caller("ana", "view")
        now[0] = NOW.replace(day=25)
        assert await tokens.caller(other, "1.1.1.1") is None
        now[0] = NOW
        assert await tokens.caller(other, "1.1.1.1") == Caller("ana", "view")
        users.remove("ana")
        assert await tokens.caller(other, "1.1.1.1") is None

    asyncio.run(look())


def test_wrong_tokens_of_one_client_are_soon_not_looked_at(tmp_path: Path) -> None:
    users, now = Users(tmp_path / "users.json"), [0.0]
    _, token = users.add("ana", "view", NOW)
    tokens = UserTokens(users, lambda: now[0], lambda: NOW)

    async def look() -> None:
        for _ in range(ATTEMPTS):
            assert await tokens.caller("wrong", "1.1.1.1") is None
        with pytest.raises(Refused) as refused:
            await tokens.caller("wrong", "1.1.1.1")
        assert refused.value.status_code == 429
        assert await tokens.caller(token, "2.2.2.2") == Caller("ana", "view")
        now[0] = WINDOW
        assert await tokens.caller(token, "1.1.1.1") == Caller("ana", "view")

    asyncio.run(look())
