from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from google.genai._base_url import set_default_base_urls as google_base_urls

from cases.load import find_cases
from cases.scans import ScanRecord, digests, keep_scan, now
from evals.spans.collector import Collector
from retrieval.embeddings import ServerEmbedder, connect_embedder
from retrieval.index.connect_store import StorePlace
from retrieval.index.qdrant_store import open_store
from serving.backends import connect
from serving.backends.http_json import HttpJson
from serving.backends.providers import all_facts
from serving.policy import gate
from serving.policy.policy import HeldPolicy, NotScanned, Policy, PolicyError
from serving.protocol.model_name import parse_model_name
from tests.evigraph import write_cases

SERVICES = {one.name: one.service_variables[-1] for one in all_facts()}


def hold(**rules: object) -> None:
    text = str(rules)
    made = Policy.model_validate({"name": "ours", **rules})
    gate.hold([HeldPolicy(origin="here", sha256=text, rules=made)])


@pytest.mark.parametrize(
    "model",
    [
        "openai:m",
        "anthropic:m",
        "google_genai:m",
        "deepseek:m",
        "vllm:m@http://gpu01:8000/v1",
        "openai:m@http://127.0.0.1:9/v1,http://gpu01/v1",
        "anthropic:m@http://gpu01",
    ],
)
def test_no_model_is_asked_at_a_host_that_is_not_allowed(model: str) -> None:
    hold()
    with pytest.raises(PolicyError, match=r"rule hosts: .* may see no text"):
        connect(parse_model_name(model))


@pytest.mark.parametrize("provider", SERVICES)
def test_an_address_from_the_environment_is_held_to_the_policy(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE", "DEEPSEEK"):
        monkeypatch.setenv(f"{name}_API_KEY", "a-key")
    hold(hosts=["gpu01"])
    monkeypatch.setenv(SERVICES[provider], "http://gpu02/v1")
    with pytest.raises(PolicyError, match="gpu02"):
        connect(parse_model_name(f"{provider}:m"))
    monkeypatch.setenv(SERVICES[provider], "http://gpu01/v1")
    connect(parse_model_name(f"{provider}:m"))


def test_a_provider_is_held_to_the_policy_even_without_a_server() -> None:
    hold(providers=["scripted"])
    connect(parse_model_name("scripted:auto"))
    with pytest.raises(PolicyError, match="rule providers: embedded"):
        connect(parse_model_name("embedded:smollm2-135m"))


async def test_everything_that_sends_asks_first() -> None:
    url = "http://gpu01:8000/v1"
    open_embedder = ServerEmbedder("m", url)
    hold()
    refused = pytest.raises(PolicyError, match="gpu01")
    with refused:
        await HttpJson().post(url, {})
    with refused:
        await HttpJson().status(url, 1.0)
    with refused:
        connect_embedder(f"openai:m@{url}")
    with refused:
        await open_embedder.aembed(["a text"])
    with refused:
        open_store(StorePlace(folder=None, url=url, collection="c", dimensions=2))  # type: ignore[arg-type]
    with refused:
        Collector(url)


def test_the_wall_stops_what_did_not_ask() -> None:
    hold(hosts=["10.1.0.0/16"])
    with pytest.raises(PolicyError, match=r"example.org"):
        socket.getaddrinfo("example.org", 80)
    with pytest.raises(PolicyError, match=r"example.org"):
        socket.getaddrinfo(b"example.org", 80)
    with socket.socket() as one, pytest.raises(PolicyError, match=r"192.0.2.1"):
        one.connect(("192.0.2.1", 80))
    with socket.socket(type=socket.SOCK_DGRAM) as one, pytest.raises(PolicyError, match=r"192.0.2.1"):
        one.sendto(b"text", ("192.0.2.1", 53))
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


Look = Callable[[str, str], None]


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Look:
    """Let a name lead to an address, as the resolver of the system would."""
    known: dict[str, str] = {}

    def look_up(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
        sys.audit("socket.getaddrinfo", host, port, 0, 0, 0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known.get(host, host), port))]

    monkeypatch.setattr("_socket.getaddrinfo", look_up)
    return known.__setitem__


def connects(address: str) -> bool:
    """Whether the wall lets a connection begin; it then fails, as nothing listens."""
    with socket.socket() as one:
        one.setblocking(False)
        try:
            one.connect((address, 9))
        except PolicyError:
            return False
        except OSError:
            return True
    return True


def test_the_wall_passes_the_addresses_of_allowed_names_and_no_others(resolves: Look) -> None:
    resolves("gpu01", "192.0.2.10")
    resolves("gpu02", "192.0.2.20")
    hold(hosts=["gpu01", "gpu02"])
    assert not connects("192.0.2.10")
    socket.getaddrinfo("gpu01", 80)
    assert connects("192.0.2.10")
    assert not connects("192.0.2.20") and not connects("203.0.113.7") and not connects("0xcb007107")
    assert connects("::ffff:192.0.2.10") is connects("192.0.2.10")
    with pytest.raises(PolicyError, match=r"example\.org"):
        socket.getaddrinfo("example.org", 80)


def test_the_address_of_a_name_is_judged_by_every_policy(resolves: Look) -> None:
    resolves("gpu01", "192.0.2.10")
    hold(hosts=["gpu01"])
    socket.getaddrinfo("gpu01", 80)
    hold(hosts=["gpu02"])
    assert not connects("192.0.2.10")


@pytest.mark.parametrize(
    "host", ["0xcb007107", "3405803783", "0313.0.0161.7", "\uff13\uff14\uff10\uff15803783"]
)
def test_a_number_is_no_name_of_the_local_network(host: str) -> None:
    with pytest.raises(PolicyError, match="--allow-hosted"):
        gate.demand_host(f"http://{host}/v1", "model m")
    hold(hosts=["private"])
    with pytest.raises(PolicyError, match="rule hosts"):
        gate.demand_host(f"http://{host}/v1", "model m")


def test_data_without_a_policy_need_a_word_for_public_hosts_alone() -> None:
    gate.demand_host("http://gpu01/v1", "model m")
    gate.demand_host("http://192.168.0.7/v1", "model m")
    with pytest.raises(PolicyError, match=r"model m: texts of cases would go to api.* --allow-hosted"):
        gate.demand_host("https://api.openai.com", "model m")
    gate.demand_host("https://api.openai.com", "receiver", consent=False)
    gate.hold_for([], hosts=["api.openai.com"])
    gate.demand_host("https://api.openai.com", "model m")
    with pytest.raises(PolicyError):
        gate.demand_host("https://api.anthropic.com", "model m")
    gate.choose(None, allow_hosted=True)
    gate.demand_host("https://api.anthropic.com", "model m")


def test_a_policy_that_comes_later_closes_what_was_open() -> None:
    gate.choose(None, allow_hosted=True)
    gate.demand_host("https://api.openai.com", "model m")
    hold()
    with pytest.raises(PolicyError, match="rule hosts"):
        gate.demand_host("https://api.openai.com", "model m")


def test_pages_of_runs_that_forbid_it_are_for_this_machine() -> None:
    hold()
    for host in ("127.0.0.1", "localhost", "[::1]"):
        gate.demand_listening(host)
    with pytest.raises(PolicyError, match="rule view_from_other_hosts"):
        gate.demand_listening("0.0.0.0")  # noqa: S104


@pytest.mark.parametrize("model", ["batch:openai:gpt-5", "batch:anthropic:claude"])
def test_batches_are_forbidden_unless_a_policy_allows_them(model: str) -> None:
    name, service = parse_model_name(model), ["https://api.example.org"]
    hold(hosts=["*.example.org"])
    with pytest.raises(PolicyError, match=r"rule batches: .*; leave batch: out of --model"):
        gate.demand_model(name, service)
    gate.demand_model(parse_model_name(model.removeprefix("batch:")), service)
    gate.release()
    hold(hosts=["*.example.org"], batches=True)
    gate.demand_model(name, service)


def test_batches_of_a_provider_are_held_to_the_rules_for_it() -> None:
    name = parse_model_name("batch:openai:gpt-5")
    hold(hosts=["*"], batches=True, providers=["anthropic"])
    with pytest.raises(PolicyError, match="rule providers: openai"):
        gate.demand_model(name, ["https://api.example.org"])
    gate.release()
    hold(batches=True)
    with pytest.raises(PolicyError, match=r"rule hosts: api\.example\.org"):
        gate.demand_model(name, ["https://api.example.org"])
    gate.release()
    with pytest.raises(PolicyError, match="--allow-hosted"):
        gate.demand_model(name, ["https://api.example.org"])


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_cases(tmp_path / "cases.jsonl", 1)
    return tmp_path / "cases.jsonl"


def scanned(path: Path) -> None:
    for sha256 in digests(find_cases([path])):
        keep_scan(ScanRecord(sha256=sha256, at=now(), by="a test"))


def test_cases_are_scanned_before_a_public_host_sees_them(cases: Path) -> None:
    hold(hosts=["*"], scan_before_hosted=True)
    gate.take_cases([cases])
    for near in ("http://127.0.0.1/v1", "http://gpu01/v1", "http://10.0.0.1/v1"):
        gate.demand_host(near, "model m")
    # A receiver of spans gets no texts unless another rule lets them go.
    gate.demand_host("https://collector.example.org", "receiver", consent=False)
    with pytest.raises(NotScanned, match=r"rule scan_before_hosted: .*cases.jsonl was not: evigraph scan "):
        gate.demand_host("https://api.openai.com", "model m")
    scanned(cases)
    gate.demand_host("https://api.openai.com", "model m")


def test_a_run_keeps_its_policy() -> None:
    recorded = HeldPolicy(origin="there", sha256="1", rules=Policy(name="theirs"))
    assert gate.hold_for([], [recorded]) == (recorded,)
    gate.choose("physionet", allow_hosted=False)
    with pytest.raises(PolicyError, match="held to policy 'theirs'"):
        gate.hold_for([], [recorded])


@pytest.mark.parametrize("variable", ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"])
@pytest.mark.parametrize(
    ("place", "base", "host"),
    [
        ("", "", "aiplatform.googleapis.com"),
        ("europe-west4", "", "europe-west4-aiplatform.googleapis.com"),
        ("europe-west4", "https://elsewhere.example.org", "elsewhere.example.org"),
    ],
)
def test_vertex_is_judged_by_its_own_host(
    monkeypatch: pytest.MonkeyPatch, variable: str, place: str, base: str, host: str
) -> None:
    monkeypatch.setenv(variable, "true")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", place)
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", base)
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    name = parse_model_name("google_genai:gemini-2.5-flash")
    hold(hosts=["generativelanguage.googleapis.com"])
    with pytest.raises(PolicyError, match=re.escape(host)):
        connect(name)


def test_what_googles_client_has_chosen_is_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    google_base_urls("https://elsewhere.example.org", None)
    try:
        hold(hosts=["generativelanguage.googleapis.com"])
        with pytest.raises(PolicyError, match=r"elsewhere\.example\.org"):
            connect(parse_model_name("google_genai:gemini-2.5-flash"))
    finally:
        google_base_urls(None, None)
