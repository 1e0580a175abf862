"""A file of servers that is read again: what it may hold, who is asked, and a kill in the middle of a run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from serving import gate
from serving.backends import Backend, connect
from serving.backends.backend import Server
from serving.endpoint_file import ListedServers, read_endpoints
from serving.errors import ModelError
from serving.model_name import ModelName, parse_model_name
from tests.evigraph import write_cases, write_recipe
from tests.serving.asks import Connect, Reach
from tests.serving.fake_server import MODEL, FakeServer
from tests.serving.test_dispatcher import of_case, server_of, until

SERVER = """\
import sys, threading
from tests.serving.fake_server import FakeServer, Obey
models = {"data": [{"id": "tiny", "max_model_len": 100_000, "owned_by": "vllm"}]}
server = FakeServer(models=models, default=Obey())
server.start()
print(server.url, flush=True)
for _ in sys.stdin:
    print(len(server.chats), flush=True)
"""


@pytest.fixture
def other() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "endpoints.txt"


def listed(backend: Backend) -> ListedServers[Server]:
    assert backend.listed is not None
    return backend.listed


def test_a_file_lists_an_address_a_line(file: Path) -> None:
    file.write_text(
        "# rack 1\nhttp://gpu01:8000/v1 # eight GPUs\n\n  http://gpu02:8000/v1/\nhttp://gpu02:8000/v1\n"
    )
    assert read_endpoints(file, "KEY") == ("http://gpu01:8000/v1", "http://gpu02:8000/v1")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "endpoints.txt: No such file or directory"),
        ("", "endpoints.txt lists no server"),
        ("# none\n", "endpoints.txt lists no server"),
        ("http://a:1/v1\ngpu02:8000\n", "line 2: 'gpu02:8000' is no address such as"),
        ("http://a:1/v1,http://b:1/v1\n", "line 1: .* is no address such as"),
        ("http://me:secret@a:1/v1\n", "line 1: an address holds no user and no password"),
        ("http://a:1/v1?key=secret\n", r"line 1: an address ends before any \?"),
    ],
)
def test_what_a_file_may_not_hold(file: Path, text: str | None, fault: str) -> None:
    if text is not None:
        file.write_text(text)
    with pytest.raises(ModelError, match=fault) as caught:
        parse_model_name(f"vllm:tiny@file:{file}")
    assert "secret" not in str(caught.value)


def test_the_name_has_the_whole_path_and_the_identity_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("http://gpu01:8000/v1\n")
    monkeypatch.chdir(file.parent)
    name = parse_model_name("vllm:org/tiny@file:endpoints.txt")
    assert str(name) == f"vllm:org/tiny@file:{file}"
    assert (name.identity, name.base_urls) == ("vllm:org/tiny", ("http://gpu01:8000/v1",))
    assert not name.needs_server and parse_model_name(str(name)) == name


@pytest.mark.parametrize("text", ["openai:tiny@file:{}", "batch:vllm:tiny@file:{}", "anthropic:tiny@file:{}"])
def test_only_a_vllm_model_takes_a_file(file: Path, text: str) -> None:
    file.write_text("http://gpu01:8000/v1\n")
    with pytest.raises(ModelError, match="only a model vllm:NAME@file:PATH"):
        parse_model_name(text.format(file))


@pytest.fixture
def two(file: Path, server: FakeServer, other: FakeServer, reach: Reach) -> Backend:
    file.write_text(f"{server.url}\n{other.url}\n")
    return reach(ModelName("vllm", MODEL, f"file:{file}"))


async def test_servers_come_and_go_with_their_lines(
    file: Path, server: FakeServer, other: FakeServer, two: Backend, connect_client: Connect
) -> None:
    client = connect_client(backend=two)
    before = {number: await server_of(client, of_case(number)) for number in range(20)}
    assert {*before.values()} == {server.url, other.url}
    file.write_text(f"{other.url}\n")
    await listed(two).look()
    for number in before:
        assert await server_of(client, replace(of_case(number), max_tokens=41)) == other.url
    file.write_text(f"{other.url}\n{server.url}\n")
    await listed(two).look()
    # Conversations that have moved stay; new cases spread again.
    assert {await server_of(client, of_case(number)) for number in range(20, 50)} == {server.url, other.url}


async def test_the_file_is_followed_while_requests_go_out(
    file: Path,
    server: FakeServer,
    other: FakeServer,
    reach: Reach,
    connect_client: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("serving.endpoint_file.LOOK_S", 0.01)
    file.write_text(f"{server.url}\n")
    backend = reach(ModelName("vllm", MODEL, f"file:{file}"))
    client = connect_client(backend=backend)
    assert await server_of(client, of_case(1)) == server.url
    server.stop()
    waiting = asyncio.create_task(server_of(client, of_case(2)))
    await until(lambda: client.dispatcher.endpoints[server.url].down)
    file.write_text(f"{server.url}\n{other.url}\n")
    async with asyncio.timeout(120):
        assert await waiting == other.url


@pytest.mark.parametrize("text", ["", "nonsense\n", None])
async def test_a_file_that_cannot_be_used_changes_nothing(
    file: Path, two: Backend, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    before = listed(two).servers
    file.unlink() if text is None else file.write_text(text)
    for _ in range(3):
        await listed(two).look()
    assert listed(two).servers == before
    (message,) = caplog.messages
    assert message.startswith(f"endpoint file {file}") and message.endswith("the servers stay as they are")


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ("name: Notes\nhosts: [127.0.0.1]\n", "gpu09.example.com may see no text"),
        (None, "texts of cases would go to gpu09.example.com"),
    ],
)
async def test_an_added_address_passes_the_gate_before_it_is_asked(
    file: Path,
    server: FakeServer,
    other: FakeServer,
    reach: Reach,
    caplog: pytest.LogCaptureFixture,
    policy: str | None,
    fault: str,
) -> None:
    if policy is not None:
        (file.parent / "policy.yaml").write_text(policy)
    gate.hold_for([file.parent / "cases.jsonl"])
    file.write_text(f"{server.url}\n")
    backend = reach(ModelName("vllm", MODEL, f"file:{file}"))
    file.write_text(f"{server.url}\n{other.url}\nhttp://gpu09.example.com:8000/v1\n")
    for _ in range(2):
        await listed(backend).look()
    assert [one.endpoint for one in listed(backend).servers] == [server.url, other.url]
    refused = [message for message in caplog.messages if "is left out" in message]
    assert len(refused) == 1 and fault in refused[0]


@pytest.mark.parametrize(
    ("models", "fault"),
    [
        ({"data": [{"id": "another"}]}, "does not list 'tiny'"),
        ({"data": [{"id": MODEL, "max_model_len": 512}]}, "its context has 512 tokens, the others' 4,096"),
    ],
)
async def test_a_server_that_does_not_fit_is_left_out(
    file: Path,
    server: FakeServer,
    other: FakeServer,
    reach: Reach,
    models: Any,
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file.write_text(f"{server.url}\n")
    backend = reach(ModelName("vllm", MODEL, f"file:{file}"))
    other.models = models
    file.write_text(f"{server.url}\n{other.url}\n")
    await listed(backend).look()
    assert [one.endpoint for one in listed(backend).servers] == [server.url]
    assert fault in caplog.text


class _Process:
    """A server in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def chats(self) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        print("?", file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def test_a_server_killed_in_the_middle_costs_nothing_and_another_one_helps(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("serving.endpoint_file.LOOK_S", 0.02)
    monkeypatch.setenv("COLUMNS", "200")
    servers = [_Process() for _ in range(3)]
    first, second, third = servers
    try:
        file.write_text(f"{first.url}\n{second.url}\n")
        write_cases(tmp_path / "cases.jsonl", 60)
        recipe = write_recipe(tmp_path)
        given = ("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--json", "--concurrency", "2")
        model = ("--model", f"vllm:tiny@file:{file.name}")
        written = tmp_path / "run" / "cases.jsonl"

        def disturb() -> None:
            _wait(lambda: written.exists() and written.read_bytes().count(b"\n") >= 10)
            first.kill()
            file.write_text(f"{first.url}\n{second.url}\n{third.url}\n")

        disturber = threading.Thread(target=disturb)
        disturber.start()
        ended = CliRunner().invoke(app, [*given, *model, "--out", "run"])
        disturber.join()
        assert ended.exception is None, ended.output
        summary = json.loads(ended.stdout)
        assert (ended.exit_code, summary["done"], summary["failed"]) == (0, 60, 0)
        assert third.chats > 0 and second.chats > 0
        whole = CliRunner().invoke(app, [*given, "--model", f"vllm:tiny@{second.url}", "--out", "whole"])
        assert json.loads(whole.stdout)["last_session"]["calls"] == summary["last_session"]["calls"]
    finally:
        for one in servers:
            one.close()
    assert _results(tmp_path / "run") == _results(tmp_path / "whole")


def _wait(holds: Callable[[], bool]) -> None:
    moment = threading.Event()
    while not holds():
        moment.wait(0.01)


def _results(folder: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    timed = ("seconds", "usage", "seal", "timings")
    return {line["case_id"]: {k: v for k, v in line.items() if k not in timed} for line in lines}


def test_a_file_is_read_once_at_the_start(file: Path, server: FakeServer) -> None:
    file.write_text(f"{server.url}\n")
    backend = connect(parse_model_name(f"vllm:{MODEL}@file:{file}"))
    assert [one.endpoint for one in backend.serving] == [server.url]
