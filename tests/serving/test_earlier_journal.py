"""A run that began before models could think goes on without repeating a call.

`earlier_journal.sql` is the journal of such a version, which asked a vLLM server for the calls below.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from serving.backends import Backend
from serving.journal.journal import Journal
from serving.protocol.reply import ReplyFormat, free_text
from serving.protocol.request import Reply, Request
from tests.serving.asks import Connect, word_ask
from tests.serving.fake_server import FakeServer

STORED = Path(__file__).with_name("earlier_journal.sql")
ASKED = {
    "a word": word_ask(),
    "with a seed": word_ask(samples=(1,)),
    "with log-probabilities": word_ask(logprobs=True),
    "free text": word_ask(reply=ReplyFormat("free", None, free_text), samples=(3,)),
}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    path = tmp_path / "calls.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript(STORED.read_text())
    journal = Journal(path)
    yield journal
    journal.close()


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("asked", ASKED)
async def test_stored_calls_are_found_whatever_was_learned_since(
    server: FakeServer, connect_client: Connect, backend: Backend, asked: str, thinks: bool
) -> None:
    backend = replace(backend, takes_seed=asked == "with a seed")
    if thinks:
        backend.abilities.thinks = True
        backend.abilities.refuse("temperature")
        backend.abilities.refuse("logprobs")
        backend.abilities.refuse("seed")
        backend.abilities.limit_field = "max_completion_tokens"
    ask: Request[str] = ASKED[asked]
    (reply,) = await connect_client(backend=backend).ask(ask)
    assert isinstance(reply, Reply)
    assert [call.replayed for call in reply.calls] == [True]
    assert not server.chats


async def test_only_an_effort_that_is_asked_for_asks_anew(
    server: FakeServer, connect_client: Connect, backend: Backend
) -> None:
    (reply,) = await connect_client(backend=backend.at_effort("low")).ask(ASKED["a word"])
    assert isinstance(reply, Reply)
    assert [call.replayed for call in reply.calls] == [False]
    assert len(server.chats) == 1
