from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from access.guard import POLICY, Guard, LinkDoor, cookie_of
from tests.viewer.conftest import PORT, TOKEN

OURS = f"http://127.0.0.1:{PORT}"


def stranger(*names: str) -> TestClient:
    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("case text")

    app = Starlette(routes=[Route("/{path:path}", page, methods=["GET", "POST", "PUT"])])
    return TestClient(Guard(app, PORT, LinkDoor(PORT, TOKEN), names), base_url=OURS, follow_redirects=False)


@pytest.fixture
def guarded() -> TestClient:
    client = stranger()
    client.get("/", params={"token": TOKEN})
    return client


def test_without_the_link_nothing_is_shown() -> None:
    refused = stranger().get("/")
    assert refused.status_code == 403
    assert "case text" not in refused.text
    assert "evigraph view" in refused.text


@pytest.mark.parametrize("token", ["wrong", "", "é", TOKEN + "x"])
def test_a_wrong_key_opens_nothing(token: str) -> None:
    refused = stranger().get("/", params={"token": token})
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


def test_the_link_sets_a_strict_cookie_and_leaves_the_address_bar() -> None:
    client = stranger()
    answer = client.get("/runs/a?token=the-key&x=1", headers={"sec-fetch-site": "none"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/a?x=1")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert client.get("/runs/a").text == "case text"


def test_the_link_never_leads_to_another_host() -> None:
    for path in ("//evil.example", "/\\evil.example", "///evil.example"):
        answer = stranger().request("GET", f"{OURS}{path}?token={TOKEN}")
        assert not answer.headers["location"].startswith(("//", "/\\", "http"))


def test_a_link_in_a_page_of_another_program_goes_on_from_our_own_page() -> None:
    answer = stranger().get(
        "/", params={"token": TOKEN}, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    )
    assert answer.status_code == 200
    assert 'content="0; url=/"' in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example:8123", "evil.example", "127.0.0.1:80", "127.0.0.1", "", "[::1"]
)
def test_another_name_for_this_machine_is_refused(guarded: TestClient, host: str) -> None:
    assert guarded.get("/", headers={"host": host}).status_code == 403


def test_numeric_names_are_taken_where_the_network_may_come() -> None:
    client = stranger("*")
    assert (
        client.get("/", headers={"host": f"192.168.1.7:{PORT}"}, params={"token": TOKEN}).status_code == 303
    )
    assert client.get("/", headers={"host": f"evil.example:{PORT}"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},
        {"origin": OURS, "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_only_our_own_page_writes(guarded: TestClient, headers: dict[str, str]) -> None:
    assert guarded.post("/review", headers=headers).status_code == 403


@pytest.mark.parametrize("headers", [{"origin": OURS}, {"sec-fetch-site": "same-origin"}])
def test_our_own_page_may_write(guarded: TestClient, headers: dict[str, str]) -> None:
    assert guarded.post("/review", headers=headers).status_code == 200


def test_pages_of_others_cannot_embed_ours(guarded: TestClient) -> None:
    embedding = {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}
    assert guarded.get("/", headers=embedding).status_code == 403


def test_other_methods_are_refused(guarded: TestClient) -> None:
    assert guarded.put("/", headers={"origin": OURS}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/runs/plain", "/runs/nobody", "/assets/table.js", "/nothing"])
def test_every_response_carries_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if "assets" in path else "no-store")


def test_pages_hold_no_inline_script_and_no_inline_style() -> None:
    for template in Path("viewer/templates").glob("*.html"):
        text = template.read_text("utf-8")
        assert "style=" not in text, template
        assert "<style" not in text, template
        assert "onclick" not in text, template
        assert all("src=" in tag.partition(">")[0] for tag in text.split("<script")[1:]), template


def test_over_tls_the_cookie_stays_there() -> None:
    client = stranger()
    client.base_url = f"https://127.0.0.1:{PORT}"
    answer = client.get("/", params={"token": TOKEN})
    assert "Secure" in answer.headers["set-cookie"].split("; ")
    assert "Secure" not in stranger().get("/", params={"token": TOKEN}).headers["set-cookie"]


def test_a_broken_cookie_opens_nothing_and_breaks_nothing(guarded: TestClient) -> None:
    assert cookie_of({"cookie": "a/b=1"}, "a") is None
    assert cookie_of({"cookie": "a=1; b=2"}, "b") == "2"
    assert stranger().get("/", headers={"cookie": "a/b=1"}).status_code == 403


def test_no_web_socket_is_served() -> None:
    served: list[object] = []

    async def app(*given: object) -> None:
        served.append(given)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    async def send(message: Message) -> None:
        raise AssertionError(f"nothing is sent: {message}")

    asyncio.run(Guard(app, PORT, LinkDoor(PORT, TOKEN))({"type": "websocket"}, receive, send))
    assert served == []
