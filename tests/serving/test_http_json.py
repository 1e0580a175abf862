from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from serving.backends import Backend
from serving.backends.backend import exchange
from serving.backends.http_json import HttpJson
from serving.protocol.errors import CallError
from tests.serving.asks import as_sent
from tests.serving.fake_server import Drip, FakeServer, Raw, Say

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
CALL = as_sent()


@pytest.fixture
async def http() -> AsyncIterator[HttpJson]:
    http = HttpJson({"Authorization": "Bearer a-key"})
    yield http
    await http.close()


async def failure(http: HttpJson, server: FakeServer) -> CallError:
    with pytest.raises(CallError) as caught:
        await http.post(f"{server.url}/chat/completions", BODY)
    return caught.value


async def test_a_reply_that_is_too_large_is_given_up(
    http: HttpJson, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.backends.http_json.MAX_REPLY_BYTES", 100_000)
    server.plan(Raw(b"[" + b" " * 99_998 + b"]"), Raw(b"[" + b" " * 99_999 + b"]"))
    assert await http.post(f"{server.url}/chat/completions", BODY) == []
    error = await failure(http, server)
    assert (error.error_class, error.retryable) == ("internal", False)
    assert "the reply is larger than" in str(error)


@pytest.mark.parametrize("content", [b"<html>", b"", b"{", b"\xff\xfe", b"[" * 100_000])
async def test_a_reply_that_is_no_json_is_a_lost_connection(
    http: HttpJson, server: FakeServer, content: bytes
) -> None:
    server.plan(Raw(content))
    error = await failure(http, server)
    assert (error.error_class, str(error)) == ("connection", "the server's reply is not JSON")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"error": {"message": "no such model", "code": 5}}', "status 400: no such model"),
        (b'{"error": {"message": "first\\nsecond"}}', "status 400: first"),
        (b'{"error": "too bad"}', "status 400: too bad"),
        (b'{"message": "too bad"}', "status 400: too bad"),
        (b'{"detail": "Not Found"}', "status 400: Not Found"),
        (b'{"detail": [{"loc": ["n"]}]}', "status 400: [{'loc': ['n']}]"),
        (b'{"error": null}', 'status 400: {"error": null}'),
        (b"{}", "status 400: {}"),
        (b"[1, 2]", "status 400: [1, 2]"),
        (b"7", "status 400: 7"),
        (b"<html>\n<body>Bad gateway</body>", "status 400: <html>"),
        (b"\xff bad", "status 400: \ufffd bad"),
        (b"", "status 400"),
        (b"x" * 10_000, f"status 400: {'x' * 500}"),
        (b"[" * 20_000, f"status 400: {'[' * 500}"),
    ],
)
async def test_what_a_server_says_of_its_refusal_is_one_short_line(
    http: HttpJson, server: FakeServer, content: bytes, message: str
) -> None:
    server.plan(Raw(content, 400))
    assert str(await failure(http, server)) == message


async def test_a_status_is_zero_where_nobody_answers(http: HttpJson, server: FakeServer) -> None:
    assert await http.status(f"{server.url}/models", 5) == 200
    server.stop()
    assert await http.status(f"{server.url}/models", 5) == 0


@pytest.mark.parametrize("act", [Drip(), Say(seconds=5)], ids=["drip", "silence"])
async def test_the_time_limit_is_for_the_whole_exchange(
    server: FakeServer, backend: Backend, act: Drip | Say
) -> None:
    server.plan(act)
    with pytest.raises(CallError, match=r"no complete reply in 0\.3 s") as caught:
        await exchange(backend.servers[0], CALL, limit_s=0.3, retries=0)
    assert caught.value.error_class == "timeout"


async def test_an_exchange_notes_its_time_its_server_and_its_attempts(
    server: FakeServer, backend: Backend
) -> None:
    server.plan(Say(seconds=0.05))
    (answer,) = await exchange(backend.servers[0], CALL, limit_s=60, retries=2)
    assert (answer.retries, answer.server) == (2, server.url)
    assert answer.seconds >= 0.05
