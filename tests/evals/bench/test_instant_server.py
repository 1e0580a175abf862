from __future__ import annotations

import json
import time

import httpx
import pytest

from evals.bench.instant_server import MODEL, reply_text
from evals.bench.workload import ChildServer, instant_server
from nodes.evidence.reply_forms import label_schema, parse_labels
from serving.backends import connect
from serving.backends.reply_schemas import fixed_layout_grammar
from serving.requests.probe import probe

IDS = ("1", "2", "3")


def ask(server: ChildServer, **fields: object) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], **fields}
    return httpx.post(f"{server.url}/chat/completions", json=body, trust_env=False)


def test_replies_obey_the_grammar_of_the_request() -> None:
    grammar = fixed_layout_grammar(label_schema(IDS))
    assert parse_labels(reply_text({"structured_outputs": {"grammar": grammar}}), IDS) == ["1", "2", "3"]


def test_replies_obey_the_schema_of_the_request() -> None:
    format_ = {"type": "json_schema", "json_schema": {"schema": label_schema(IDS)}}
    assert parse_labels(reply_text({"response_format": format_}), IDS) == ["1", "2", "3"]


def test_n_brings_so_many_choices_and_requests_are_counted() -> None:
    with instant_server() as server:
        before = server.requests()
        choices = ask(server, n=3).json()["choices"]
        assert [choice["index"] for choice in choices] == [0, 1, 2]
        assert server.requests() - before == 1


def test_every_reply_takes_the_seconds() -> None:
    with instant_server(0.2) as server:
        start = time.perf_counter()
        assert json.loads(ask(server).content)["choices"]
        assert time.perf_counter() - start >= 0.2


def test_the_server_ends_with_the_one_who_started_it() -> None:
    with instant_server() as server:
        pass
    with pytest.raises(httpx.ConnectError):
        ask(server)


async def test_the_probe_finds_all_that_vllm_can_do() -> None:
    with instant_server() as server:
        able, found = await probe(connect(server.model))
        for one in able.servers:
            assert one.close is not None
            await one.close()
    assert (found.constraint, found.many_samples, found.logprobs) == ("grammar", True, True)
