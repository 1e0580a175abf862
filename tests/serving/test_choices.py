"""Questions whose reply is one of several choices, weighed by their log-probabilities."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

from serving.backends import Backend, connect
from serving.backends.backend import Server
from serving.backends.providers.openai import openai_arguments
from serving.backends.scripted import ScriptedModel
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.messages import Answer, Message
from serving.protocol.model_name import ROLES, ModelName
from serving.protocol.reply import ReplyFormat
from serving.protocol.request import Reply, Request
from serving.requests.client import ModelClient
from serving.requests.dry_run import Tallies, without_model
from tests.serving.asks import PROMPT, Connect, as_sent
from tests.serving.fake_server import FakeServer, Say

YES_NO = ("Yes", "No")
CHOICE = ReplyFormat("sentence", None, str, may_be_cut=True, choices=YES_NO)


def asking(number: int = 1, case_id: str = "7") -> Request[str]:
    question = Message("user", f"Is sentence {number} needed?")
    return Request("label", case_id, (*PROMPT, question), CHOICE, max_tokens=1)


def scripted() -> Backend:
    return connect(ModelName("scripted", "auto"))


def client(backend: Backend, folder: Path, limits: Limits | None = None) -> ModelClient:
    return ModelClient(dict.fromkeys(ROLES, backend), Journal(folder / "calls.sqlite"), limits or Limits())


async def test_one_token_and_its_likeliest_neighbours_are_asked_for(
    server: FakeServer, connect_client: Connect
) -> None:
    server.default = Say(("Yes",), ("length",))
    (reply,) = await connect_client().ask(asking())
    assert isinstance(reply, Reply), "a reply of one token is always cut"
    (body,) = server.chats
    assert (body["max_tokens"], body["logprobs"], body["top_logprobs"]) == (1, True, 20)
    assert not {"response_format", "structured_outputs"} & set(body)
    assert reply.logprobs[0][0] == "Yes"


async def test_every_sentence_is_a_call_of_its_own_and_is_replayed(
    server: FakeServer, connect_client: Connect
) -> None:
    server.default = Say(("No",), ("length",))
    one = connect_client()
    first = [await one.ask(asking(number)) for number in (1, 2)]
    (again,) = await one.ask(asking(2))
    assert len(server.chats) == 2
    (before,) = first[1]
    assert isinstance(again, Reply) and isinstance(before, Reply)
    assert again.calls[0].replayed
    assert again.logprobs == before.logprobs


def test_hosted_models_are_asked_for_as_many() -> None:
    choice = as_sent(choices=YES_NO, logprobs=True, max_tokens=1)
    arguments = openai_arguments(replace(choice, constraint="json_schema"))
    assert arguments == {"temperature": 0.0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}


@pytest.mark.parametrize(
    ("said", "odds"), [('{"Yes": 0.8, "No": 0.2}', math.log(4)), ('{"No": 0.9, "Yes": 0.1}', -math.log(9))]
)
async def test_a_script_says_how_likely_each_choice_is(tmp_path: Path, said: str, odds: float) -> None:
    backend = replace(scripted(), servers=(Server("scripted", ScriptedModel(lambda _: said)),))
    (reply,) = await client(backend, tmp_path).ask(asking())
    assert isinstance(reply, Reply)
    top = dict(reply.logprobs[0].top)
    assert top["Yes"] - top["No"] == pytest.approx(odds)
    assert reply.text == max(top, key=lambda word: top[word])


async def test_made_up_probabilities_differ_and_repeat(tmp_path: Path) -> None:
    async def odds(folder: Path) -> list[float]:
        one = client(scripted(), folder)
        replies = [reply for number in range(30) for reply in await one.ask(asking(number))]
        tops = [dict(reply.logprobs[0].top) for reply in replies if isinstance(reply, Reply)]
        return [top["Yes"] - top["No"] for top in tops]

    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    found = await odds(first)
    assert len(set(found)) == 30
    assert any(one > 0 for one in found) and any(one < 0 for one in found)
    assert await odds(second) == found


async def test_a_dry_run_weighs_the_choice_that_is_made_up(tmp_path: Path) -> None:
    tallies: Tallies = {}
    backend = without_model(scripted(), lambda *_: "No", tallies)
    (reply,) = await client(backend, tmp_path).ask(asking())
    assert isinstance(reply, Reply)
    assert reply.text == "No"
    assert dict(reply.logprobs[0].top) == pytest.approx({"No": math.log(0.9), "Yes": math.log(0.1)})
    assert tallies["label", "sentence"].calls == 1


async def peaks(backend: Backend, folder: Path, limits: Limits | None, choices: bool) -> int:
    busy = peak = 0

    async def complete(*_: object) -> list[Answer]:
        nonlocal busy, peak
        busy += 1
        peak = max(peak, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        return [Answer("Yes", "stop", 1, 1)]

    folder.mkdir()
    one = client(replace(backend, servers=(Server("here", complete),)), folder, limits)
    reply = CHOICE if choices else replace(CHOICE, choices=())
    await asyncio.gather(*(one.ask(replace(asking(number), reply=reply)) for number in range(100)))
    return peak


async def test_all_sentences_of_a_note_are_under_way_at_once_beside_few_other_requests(
    tmp_path: Path,
) -> None:
    backend = replace(scripted(), max_connections=8, start_connections=8, choices_at_once=128)
    assert await peaks(backend, tmp_path / "choices", None, choices=True) == 100
    assert await peaks(backend, tmp_path / "others", None, choices=False) == 8
    assert await peaks(backend, tmp_path / "user", Limits(max_connections=3), choices=True) == 3
    shared = replace(backend, choices_at_once=0)
    assert await peaks(shared, tmp_path / "shared", None, choices=True) == 8
