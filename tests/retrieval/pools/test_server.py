"""Pools on a real Chroma server: the rankings of a folder, what is refused, and an outage in the middle."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cases.records import Case
from cli.main import app
from retrieval.pools import pool as pools
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from retrieval.pools.push import push_pool
from retrieval.pools.server import PoolAddress, parse_pool_address
from serving import gate
from serving.errors import CallError, ModelError
from serving.policy import PolicyError, find_policies
from tests.chroma_server import ChromaServer
from tests.evigraph import write_cases, write_recipe
from tests.retrieval.pools.test_pool import (
    EMBEDDER,
    FULL,
    NAMES,
    QUERY,
    VIEWS,
    WORDS,
    case,
    some_cases,
    unanswered,
    unlabelled,
)

on_reply: Callable[[], None] = lambda: None  # noqa: E731 - replaced by tests

SCRIPT = """\
from serving.backends.scripted import made_up_reply
from tests.retrieval.pools import test_server

def reply(call):
    test_server.on_reply()
    return made_up_reply(call)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    server = ChromaServer(tmp_path_factory.mktemp("chroma"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demonstrations") / "pool"
    cases: Sequence[Case] = [*some_cases(60), FULL, unlabelled("u"), unanswered("v")]
    asyncio.run(build_pool(folder, cases, EMBEDDER))
    return folder


@pytest.fixture(scope="module")
def address(server: ChromaServer, folder: Path) -> str:
    address, new = push_pool(folder, f"{server.url}/shared", ())
    assert new
    return str(address)


async def made(folder: Path, cases: Sequence[Case]) -> Path:
    await build_pool(folder, cases, EMBEDDER)
    return folder


def ask(server: ChromaServer, method: str, path: str = "", body: object = None) -> Any:
    """As anybody can who reaches the server."""
    base = f"{server.url}/api/v2/tenants/default_tenant/databases/default_database/collections"
    answer = httpx.request(method, base + path, json=body, trust_env=False)
    answer.raise_for_status()
    return answer.json()


def collections(server: ChromaServer) -> list[str]:
    return sorted(one["name"] for one in ask(server, "GET"))


@pytest.mark.parametrize("exact", [10_000, 0])
async def test_rankings_are_those_of_the_folder(
    folder: Path, address: str, exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = DemonstrationPool(folder, EMBEDDER)
    monkeypatch.setattr(pools, "EXACT_UP_TO", exact)
    there = DemonstrationPool(address, EMBEDDER)
    assert (len(there), there.sha256) == (len(here), here.sha256)
    assert there.neighbours() == here.neighbours()
    listed = [f"c{number:03}" for number in range(0, 60, 7)]
    for view in VIEWS:
        # Of equals at the last place an index gives any.
        for query in (QUERY, " ".join(WORDS[20:40]), *(["nothing of this"] if exact else [])):
            for options in ({}, {"intent": NAMES[1]}, {"excluded": listed}, {"among": listed}):
                ours = await here.nearest(view, query, 12, **options)
                theirs = await there.nearest(view, query, 12, **options)
                # Of equals at the last place an index gives any.
                last = 3.0 if exact or "among" in options else ours[-1].distance
                assert [one for one in theirs if one.distance < last] == [
                    one for one in ours if one.distance < last
                ]
                assert len(theirs) == len(ours) > 8
                for found in (ours, theirs):
                    assert [there.case(one.case_id) for one in found] == [
                        here.case(one.case_id) for one in found
                    ]
    for one in (FULL, case("new", QUERY), case("c001", "Why?")):
        assert there.twins(one) == here.twins(one)
    with pytest.raises(KeyError):
        there.case("not there")


async def test_a_small_pool_asks_the_server_no_more_once_it_is_open(tmp_path: Path, folder: Path) -> None:
    server = ChromaServer(tmp_path)
    server.start()
    address, _ = push_pool(folder, server.url, ())
    assert address.collection == "demonstrations"
    pool = DemonstrationPool(str(address), EMBEDDER)
    server.kill()
    nearest = await pool.nearest("evidence", QUERY, 3)
    assert [pool.case(one.case_id).id for one in nearest] == [one.case_id for one in nearest]


async def test_a_name_is_given_once_unless_it_is_replaced(server: ChromaServer, tmp_path: Path) -> None:
    first = await made(tmp_path / "first", [case("a", QUERY)])
    second = await made(tmp_path / "second", [case("b", QUERY)])
    url = f"{server.url}/taken"
    assert push_pool(first, url, ()) == (PoolAddress(server.url, "taken"), True)
    before = collections(server)
    assert push_pool(first, url, ()) == (PoolAddress(server.url, "taken"), False)
    with pytest.raises(ModelError, match=r"another pool is there already.*or pass --replace"):
        push_pool(second, url, ())
    assert collections(server) == before
    assert DemonstrationPool(url, EMBEDDER).case("a").id == "a"
    assert push_pool(second, url, (), replace=True)[1]
    assert [one.case_id for one in DemonstrationPool(url, EMBEDDER).neighbours()] == ["b"]
    assert len(collections(server)) == len(before)


async def test_a_collection_of_others_is_neither_opened_nor_replaced(
    server: ChromaServer, folder: Path
) -> None:
    ask(server, "POST", body={"name": "theirs"})
    with pytest.raises(ModelError, match="is no demonstration pool"):
        DemonstrationPool(f"{server.url}/theirs", EMBEDDER)
    with pytest.raises(ModelError, match="a collection that is no pool is there already"):
        push_pool(folder, f"{server.url}/theirs", (), replace=True)
    with pytest.raises(ModelError, match=r"no demonstration pool at .*/nothing: put one there"):
        DemonstrationPool(f"{server.url}/nothing", EMBEDDER)


@pytest.mark.parametrize("field", ["documents", "metadatas", "embeddings"])
async def test_what_others_changed_is_refused(server: ChromaServer, tmp_path: Path, field: str) -> None:
    pool = await made(tmp_path / "pool", [case("a", QUERY), case("b", QUERY)])
    url = f"{server.url}/changed-{field}"
    push_pool(pool, url, ())
    DemonstrationPool(url, EMBEDDER)
    (name,) = [
        one for one in collections(server) if one.startswith(f"changed-{field}-") and one.endswith("-answer")
    ]
    id_ = ask(server, "GET", f"/{name}")["id"]
    wanted = {"ids": ["a"], "include": ["documents", "metadatas", "embeddings"]}
    found = ask(server, "POST", f"/{id_}/get", wanted)
    changed: dict[str, Any] = {
        "documents": [found["documents"][0].replace("Because.", "No reason.")],
        "metadatas": [{**found["metadatas"][0], "intent": NAMES[0]}],
        "embeddings": [[-value for value in found["embeddings"][0]]],
    }
    body = {"ids": ["a"]} | {name: found[name] for name in changed} | {field: changed[field]}
    ask(server, "POST", f"/{id_}/upsert", body)
    with pytest.raises(ModelError, match=f"{url} has changed since it was pushed"):
        DemonstrationPool(url, EMBEDDER)


async def test_the_policy_goes_with_the_pool(
    server: ChromaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = await made(tmp_path / "pool", [case("a", QUERY)])
    (pool / "policy.yaml").write_text("name: Notes\nhosts: [loopback]\n")
    with pytest.raises(PolicyError, match=r"10\.1\.1\.1 may see no text"):
        policies = gate.hold_for([pool])
        push_pool(pool, "http://10.1.1.1:8000", policies)
    gate.release()
    push_pool(pool, f"{server.url}/kept", find_policies([pool]))
    gate.release()
    gate.demand_host("http://gpu01:8000", "a server")
    DemonstrationPool(f"{server.url}/kept", EMBEDDER)
    with pytest.raises(PolicyError, match="gpu01 may see no text"):
        gate.demand_host("http://gpu01:8000", "a server")


def test_a_public_host_needs_the_users_word(folder: Path) -> None:
    with pytest.raises(PolicyError, match=r"texts of cases would go to chroma\.example\.com"):
        push_pool(folder, "https://chroma.example.com/pool", ())
    with pytest.raises(PolicyError, match=r"texts of cases would go to chroma\.example\.com"):
        DemonstrationPool("https://chroma.example.com/pool", EMBEDDER)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http://user:secret@host:8000/pool", "an address holds no user and no password"),
        ("http://host:8000/pool?token=secret", r"an address ends before any \?"),
        ("http://host:8000/a/b", "'a/b' is no name of a collection"),
        ("s3://bucket/pool", "no URL of a Chroma server"),
        ("http://", "no URL of a Chroma server"),
    ],
)
def test_addresses_that_are_refused(text: str, fault: str) -> None:
    with pytest.raises(ModelError, match=fault) as caught:
        parse_pool_address(text)
    assert "secret" not in str(caught.value)


class _Guarded(BaseHTTPRequestHandler):
    """Refuses whoever has not the token, and keeps what it was sent."""

    seen: list[dict[str, str]] = []  # noqa: RUF012 - of the class, as handlers are made anew

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": "Unauthorized"}')

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_the_token_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = ThreadingHTTPServer(("127.0.0.1", 0), _Guarded)
    threading.Thread(target=guarded.serve_forever, daemon=True).start()
    monkeypatch.setenv("CHROMA_TOKEN", "tk-secret\n")
    try:
        with pytest.raises(CallError, match="the server refuses the token of CHROMA_TOKEN") as caught:
            DemonstrationPool(f"http://127.0.0.1:{guarded.server_port}/pool", EMBEDDER)
    finally:
        guarded.shutdown()
        guarded.server_close()
    (sent,) = _Guarded.seen
    assert (sent["authorization"], sent["x-chroma-token"]) == ("Bearer tk-secret", "tk-secret")
    assert "tk-secret" not in str(caught.value)


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    ended = CliRunner().invoke(app, ["run", "tamu", str(folder / "cases.jsonl"), *arguments, "--json"])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, json.loads(ended.stdout)


async def lexical(folder: Path, cases: Sequence[Case]) -> Path:
    from retrieval.embeddings import LexicalEmbedder

    await build_pool(folder, cases, LexicalEmbedder(256))
    return folder


def test_a_server_that_dies_in_the_middle_of_a_run_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHROMA_TOKEN", "tk-secret")
    server = ChromaServer(tmp_path)
    server.start()
    asyncio.run(lexical(tmp_path / "pool", some_cases(30)))
    push_pool(tmp_path / "pool", server.url, ())
    # Only a large pool asks while the run goes on.
    monkeypatch.setattr(pools, "EXACT_UP_TO", 0)
    # Each is near to one demonstration: of equals an index gives any, and others once it has begun anew.
    asking = [
        {
            "case_id": f"k{number}",
            "question": f"{one.question} today",
            "narrative": one.narrative,
            "sentences": [{"id": "1", "text": "Stable."}],
        }
        for number, one in enumerate(some_cases(30)[:6])
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asking))
    recipe = write_recipe(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    given = ("--recipe", str(recipe), "--model", "scripted:script.py:reply", "--demos", server.url)
    code, whole = run(tmp_path, *given, "--out", "whole")
    assert (code, whole["done"]) == (0, 6)

    replies, restarts = 0, 0

    def die() -> None:
        nonlocal replies
        replies += 1
        if replies == 4:
            server.kill()

    class Restart(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            nonlocal restarts
            if "asked again in" in record.getMessage() and restarts == 0:
                restarts += 1
                server.start()

    handler = Restart()
    monkeypatch.setattr(f"{__name__}.on_reply", die)
    logging.getLogger("evigraph.retrieval").addHandler(handler)
    logging.getLogger("evigraph.retrieval").setLevel(logging.INFO)
    try:
        code, broken = run(tmp_path, *given, "--out", "broken", "--concurrency", "1")
    finally:
        logging.getLogger("evigraph.retrieval").removeHandler(handler)
        server.kill()
    assert (code, broken["done"], restarts) == (0, 6, 1)
    assert broken["last_session"]["calls"] == whole["last_session"]["calls"] == replies
    for name in ("whole", "broken"):
        for file in (tmp_path / name).iterdir():
            assert b"tk-secret" not in file.read_bytes()
    assert _results(tmp_path / "broken") == _results(tmp_path / "whole")


def _results(folder: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    timed = ("seconds", "usage", "seal", "timings")
    return {line["case_id"]: {k: v for k, v in line.items() if k not in timed} for line in lines}


def test_resume_refuses_another_pool_of_the_same_name(
    server: ChromaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(lexical(tmp_path / "pool", some_cases(10)))
    asyncio.run(lexical(tmp_path / "other", some_cases(11)))
    address, _ = push_pool(tmp_path / "pool", f"{server.url}/resumed", ())
    write_cases(tmp_path / "cases.jsonl", 2)
    recipe = write_recipe(tmp_path)
    given = ("--recipe", str(recipe), "--model", "scripted:auto", "--demos", str(address))
    assert run(tmp_path, *given, "--out", "run")[0] == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())["resources"]["demonstrations"]
    assert (record["url"], record["count"]) == (str(address), 10) and len(record["content"]) == 64
    assert CliRunner().invoke(app, ["resume", "run"]).exit_code == 0
    push_pool(tmp_path / "other", str(address), (), replace=True)
    ended = CliRunner().invoke(app, ["resume", "run"])
    assert "changed since this run began: demonstrations" in str(ended.exception)
