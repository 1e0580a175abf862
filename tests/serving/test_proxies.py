"""Every client goes by the proxy that the gate has judged, and by no other way."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from retrieval.embeddings import ServerEmbedder
from retrieval.index.connect_store import StorePlace
from retrieval.index.qdrant_store import open_store
from serving.backends import connect
from serving.backends.backend import exchange
from serving.backends.http_json import HttpJson
from serving.policy import gate
from serving.policy.policy import HeldPolicy, Policy, PolicyError
from serving.protocol.addresses import proxy_of
from serving.protocol.errors import CallError, ModelError
from serving.protocol.model_name import ModelName, parse_model_name
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.forward_proxy import ForwardProxy, forward_proxy
from tests.serving.hosted_models import MODELS, Connected, answers, call, point_at
from tests.serving.hosted_server import HostedServer, anthropic_text, completion, google_reply

REPLIES = {
    "openai": completion({"content": "yes"}),
    "anthropic": anthropic_text("yes"),
    "google_genai": google_reply("yes"),
    "deepseek": completion({"content": "yes"}),
}
VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def no_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def proxy(server: FakeServer) -> Iterator[ForwardProxy]:
    with forward_proxy(server.port) as proxy:
        yield proxy


def hold(*hosts: str) -> None:
    made = Policy(name="ours", hosts=("loopback", *hosts))
    gate.hold([HeldPolicy(origin="here", sha256=str(hosts), rules=made)])


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"http_proxy": "http://p:1"}, "http://gpu01:8000/v1", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, "http://gpu01:8000/v1", "http://p:1"),
        ({"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1"}, "http://gpu01", "http://p:1"),
        ({"http_proxy": "p:1"}, "http://gpu01", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://gpu01", None),
        ({"https_proxy": "http://p:1"}, "https://gpu01", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "https://gpu01", "http://p:1"),
        ({"all_proxy": "http://p:1", "http_proxy": "http://q:1"}, "http://gpu01", "http://q:1"),
        ({"http_proxy": "http://p:1", "no_proxy": "gpu01"}, "http://gpu01:8000/v1", None),
        ({"http_proxy": "http://p:1", "NO_PROXY": ".example.org"}, "http://a.example.org", None),
        ({"http_proxy": "http://p:1", "no_proxy": "gpu01:8001"}, "http://gpu01:8000", "http://p:1"),
        ({"http_proxy": "http://p:1", "no_proxy": "fd00::1"}, "http://[fd00::1]:8000", None),
        ({"http_proxy": "http://p:1", "no_proxy": "*"}, "http://gpu01", None),
        ({"http_proxy": "http://p:1"}, "http://127.0.0.1:8000", None),
        ({"http_proxy": "http://p:1"}, "http://127.8.0.1:8000", None),
        ({"http_proxy": "http://p:1"}, "http://localhost.:8000", None),
        ({"http_proxy": "http://p:1"}, "http://[::1]:8000", None),
        ({"http_proxy": "http://p:1"}, "http://0x7f.1:8000", None),
        ({}, "http://gpu01", None),
    ],
)
def test_the_proxy_of_an_address(
    variables: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url) == proxy


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(
    ("named", "host"),
    [
        ("http://proxy.example.org:8080", "proxy.example.org"),
        ("http://203.0.113.7:8080", "203.0.113.7"),
        ("0xcb007107:8080", "0xcb007107"),
        ("http://ann:secret@proxy.example.org:8080", "proxy.example.org"),
    ],
)
def test_a_proxy_is_a_host_that_a_policy_has_to_name(
    variable: str, named: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, named)
    hold("gpu01", "private")
    with pytest.raises(PolicyError) as caught:
        gate.demand_model(parse_model_name(f"vllm:{MODEL}@http://gpu01:8000/v1"), ["http://gpu01:8000/v1"])
    assert f"rule hosts: {host} may see no text" in str(caught.value)
    assert "it is the proxy of gpu01: name gpu01 in no_proxy" in str(caught.value)
    assert "secret" not in str(caught.value)
    gate.release()
    hold("gpu01", host)
    assert gate.demand_route("http://gpu01:8000/v1", "model m") == proxy_of("http://gpu01:8000/v1")


def test_a_public_proxy_needs_the_users_word_and_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:8080")
    urls = ["http://gpu01:8000/v1", "http://127.0.0.1:8000/v1"]
    assert gate.public_hosts(urls) == ["proxy.example.org"]
    gate.demand_route(urls[1], "model m")
    with pytest.raises(PolicyError, match=r"would go to proxy\.example\.org, and .*the proxy of gpu01"):
        gate.demand_route(urls[0], "model m")
    gate.hold_for([], hosts=["proxy.example.org"])
    assert gate.demand_route(urls[0], "model m") == "http://proxy.example.org:8080"


@pytest.mark.parametrize("named", ["socks5://127.0.0.2:1080", "ftp://127.0.0.2"])
def test_a_proxy_of_another_kind_is_one_line(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", named)
    with pytest.raises(ModelError, match=r"the proxy of gpu01 is .*only http:// and https:// can be used"):
        gate.demand_route("http://gpu01:8000/v1", "model m")


Ask = Callable[[str, pytest.MonkeyPatch], Awaitable[object]]
"""Sends something to a URL with the client of a test."""


async def post(url: str, _: pytest.MonkeyPatch) -> object:
    http = HttpJson()
    try:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "a text"}]}
        return await http.post(f"{url}/v1/chat/completions", body)
    finally:
        await http.close()


async def ask_server(url: str, _: pytest.MonkeyPatch) -> object:
    backend = connect(ModelName("vllm", MODEL, f"{url}/v1"))
    try:
        return await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    finally:
        assert backend.servers[0].close is not None
        await backend.servers[0].close()


async def embed(url: str, _: pytest.MonkeyPatch) -> object:
    embedder = ServerEmbedder("m", f"{url}/v1")
    try:
        return await embedder.aembed(["a text"])
    finally:
        await embedder.aclose()


def hosted_by(provider: str) -> Ask:
    async def ask(url: str, monkeypatch: pytest.MonkeyPatch) -> object:
        port = int(url.rpartition(":")[2])
        at = type("At", (HostedServer,), {"url": url})(port=port)
        point_at(at, monkeypatch)
        return await answers(provider, call())

    return ask


CLIENTS: dict[str, Ask] = {
    "post": post,
    "vllm": ask_server,
    "embedding": embed,
    **{provider: hosted_by(provider) for provider in MODELS},
}


@pytest.fixture
def answering(request: pytest.FixtureRequest, server: FakeServer, hosted: HostedServer) -> int:
    """The port of a server that answers the client of the test."""
    name = request.node.callspec.params["client"]
    if name not in REPLIES:
        return server.port
    hosted.default = REPLIES[name]
    return hosted.port


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_server_on_this_machine_is_asked_directly(
    client: str, answering: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forward_proxy(answering) as proxy:
        for variable in VARIABLES:
            monkeypatch.setenv(variable, proxy.url)
        await CLIENTS[client](f"http://127.0.0.1:{answering}", monkeypatch)
        assert proxy.hosts == []


@pytest.mark.parametrize("client", CLIENTS)
async def test_an_allowed_proxy_is_used(client: str, answering: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with forward_proxy(answering) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("//", "//ann:secret@"))
        hold("gpu01")
        await CLIENTS[client](f"http://gpu01:{answering}", monkeypatch)
        assert set(proxy.hosts) == {f"gpu01:{answering}"}
        assert set(proxy.logins) == {"Basic YW5uOnNlY3JldA=="}


@pytest.mark.parametrize("named", ["http://proxy.example.org:8080", "http://203.0.113.7:8080"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_nothing_goes_to_a_proxy_that_is_not_allowed(
    client: str, named: str, answering: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: begun.append(address))
    monkeypatch.setenv("http_proxy", named)
    hold("gpu01")
    with pytest.raises((PolicyError, CallError), match=r"may see no text .*it is the proxy of gpu01"):
        await CLIENTS[client](f"http://gpu01:{answering}", monkeypatch)
    assert begun == []


def test_qdrant_takes_the_proxy_from_the_gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("http_proxy", "http://203.0.113.7:8080")
    place = StorePlace(tmp_path, "http://gpu01:6333", collection="c", dimensions=2)
    hold("gpu01")
    with pytest.raises(PolicyError, match=r"203\.0\.113\.7 may see no text"):
        open_store(place)


async def test_hosts_that_a_provider_chooses_itself_are_judged_at_each_request(
    hosted: HostedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("LANGSMITH_GATEWAY", "https://gateway.example.org")
    gate.hold_for([], hosts=["api.anthropic.com"])
    async with Connected("anthropic") as backend:
        with pytest.raises(CallError, match=r"would go to gateway\.example\.org"):
            await exchange(backend.servers[0], call(), limit_s=10, retries=0)
