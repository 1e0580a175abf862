"""Servers that put control codes into what they say, or that never come to an end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from serving.backends import connect
from serving.backends.backend import exchange
from serving.protocol.errors import CallError, ModelError
from serving.protocol.model_name import HOSTED, ModelName
from serving.requests.probe import probe
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.hosted_models import Connected, answers, call, point_at
from tests.serving.hosted_server import HostedServer, openai_error

EVIL = "\x1b[31mred\x1b]8;;http://evil\x07link\u202etxet\x9b2J\u2066\x00end"
UNSAFE = frozenset("\x1b\x07\u202e\x9b\u2066\x00\n\r")

Answer = Callable[[socket.socket], None]


class Raw:
    """Answers GET with a list of models, unless told otherwise, and everything else byte by byte as told."""

    def __init__(self) -> None:
        self.get: Answer = send_list
        self.post: Answer = send_list
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                head = connection.recv(65536)
                (self.get if head.startswith(b"GET") else self.post)(connection)
            except OSError:
                # The client has had enough.
                return


def send(connection: socket.socket, body: bytes, status: int = 200) -> None:
    head = b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    connection.sendall(head + body)


def send_list(connection: socket.socket) -> None:
    send(connection, json.dumps({"data": [{"id": MODEL}]}).encode())


def refuse(connection: socket.socket) -> None:
    send(connection, json.dumps({"error": {"message": EVIL}}, ensure_ascii=False).encode(), 400)


def continue_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 50)


def drip(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\n \r\n")


@pytest.fixture
def raw() -> Iterator[Raw]:
    raw = Raw()
    yield raw
    raw.close()


def check(error: Exception) -> None:
    assert not UNSAFE & set(str(error)), ascii(str(error))
    assert "red" in str(error)


def test_names_of_models_drive_no_terminal(server: FakeServer) -> None:
    server.models = {"data": [{"id": f"{EVIL}\nevigraph: all is well"}]}
    unlisted = connect(ModelName("vllm", MODEL, server.url)).unlisted
    assert "it lists" in unlisted
    check(ModelError(unlisted))
    assert unlisted == str(ModelError(unlisted))


def test_a_long_list_of_models_is_shown_in_part(server: FakeServer) -> None:
    server.models = {"data": [{"id": f"{number}" + "x" * 10_000} for number in range(1000)] + [{"id": 7}]}
    unlisted = connect(ModelName("vllm", MODEL, server.url)).unlisted
    assert "and 951 more" in unlisted and len(unlisted) < 20_000


@pytest.mark.parametrize("provider", HOSTED)
async def test_errors_of_services_drive_none(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    point_at(hosted, monkeypatch)
    hosted.default = openai_error(400, EVIL)
    with pytest.raises(CallError) as caught:
        await answers(provider, call())
    check(caught.value)
    check(caught.value.at("somewhere"))


@pytest.mark.parametrize("act", [continue_for_ever, drip])
def test_a_list_of_models_that_never_comes_is_given_up(
    raw: Raw, monkeypatch: pytest.MonkeyPatch, act: Answer
) -> None:
    monkeypatch.setattr("serving.backends.openai_compatible.PROBE_TIMEOUT_S", 0.3)
    raw.get = act
    with pytest.raises(ModelError, match=r"no complete list of models in 0\.3 s"):
        connect(ModelName("vllm", MODEL, raw.url))


async def test_a_reply_that_is_always_to_come_is_given_up(raw: Raw) -> None:
    raw.post = continue_for_ever
    async with Connected("vllm", MODEL, raw.url) as backend:
        # Long before the time limit.
        with pytest.raises(CallError, match="more than 20 interim responses and no reply") as caught:
            await exchange(backend.servers[0], call(), limit_s=600, retries=0)
        with pytest.raises(ModelError, match="more than 20 interim responses"):
            await probe(backend)
    assert (caught.value.error_class, caught.value.retryable) == ("connection", True)


async def test_a_few_interim_responses_come_before_a_reply(raw: Raw) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 5)
        choice = {"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}
        send(connection, json.dumps({"model": MODEL, "choices": [choice]}).encode())

    raw.post = answer
    async with Connected("vllm", MODEL, raw.url) as backend:
        (found,) = await exchange(backend.servers[0], call(), limit_s=60, retries=0)
    assert found.text == "yes"


@pytest.mark.slow
async def test_a_probe_waits_no_longer_than_any_request(raw: Raw) -> None:
    never = threading.Event()

    def wait(_: socket.socket) -> None:
        never.wait(30)

    raw.post = wait
    async with Connected("vllm", MODEL, raw.url) as backend:
        with pytest.raises(ModelError, match=r"no complete reply in 0\.3 s"):
            await probe(backend, limit_s=0.3)
    never.set()


async def test_a_probe_whose_reply_never_ends_is_soon_given_up(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.backends.http_json.SMALL_REPLY_S", 0.3)
    raw.post = drip
    async with Connected("vllm", MODEL, raw.url) as backend:
        with pytest.raises(ModelError, match=r"began and did not end in 0\.3 s"):
            await probe(backend)
