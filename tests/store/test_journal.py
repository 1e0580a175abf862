"""The journal of a shared run: the same calls as in a file, stored once, durable, and checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from evals.bench.postgres_server import PostgresServer
from evals.bench.store import invented_requests
from serving.journal import Journal, JournalDamaged, JournalError, Question
from serving.messages import Answer, Message, TokenLogprob
from serving.postgres.address import parse_store
from serving.postgres.copy import copy_journal
from serving.postgres.journal import PostgresJournal
from serving.postgres.link import connected
from serving.postgres.schema import migrate

pytestmark = pytest.mark.scale

ODD = "half \ud800 of a pair, nothing \x00, \U0001f9ea"
QUESTION = Question("vllm:m", "r1", (Message("system", "Label."), Message("user", ODD)), {"seed": 1}, 0)
ANSWER = Answer(
    ODD,
    "stop",
    11,
    7,
    3,
    0.123456789,
    2,
    "http://h:1",
    (TokenLogprob("a", -0.5, (("a", -0.5), ("b", -1.5))),),
)


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> str:
    name = server.create()
    migrate(parse_store(server.url(name)))
    return name


@pytest.fixture
async def journal(server: PostgresServer, database: str) -> AsyncIterator[PostgresJournal]:
    server.query(database, "TRUNCATE calls, texts")
    made = opened(server, database)
    yield made
    await made.close()


def opened(server: PostgresServer, database: str) -> PostgresJournal:
    return PostgresJournal(parse_store(server.url(database)), 0, lambda _: None)


async def keep(
    journal: PostgresJournal, *answers: Answer, question: Question = QUESTION
) -> dict[int, Answer]:
    questions = [replace(question, sample=sample) for sample in range(len(answers))]
    return await journal.keep_all(list(zip(questions, answers, strict=True)), role="label", case_id="k\x001")


async def test_an_answer_comes_back_as_it_was(journal: PostgresJournal) -> None:
    assert await journal.find_all([QUESTION]) == {}
    other = replace(ANSWER, text="", logprobs=(), finish_reason="length")
    assert await keep(journal, ANSWER, other) == {0: ANSWER, 1: other}
    asked = [replace(QUESTION, sample=sample) for sample in range(3)]
    assert await journal.find_all(asked) == {0: ANSWER, 1: other}


async def test_texts_are_stored_once(journal: PostgresJournal, server: PostgresServer, database: str) -> None:
    await keep(journal, *[ANSWER] * 5)
    again = opened(server, database)
    await keep(again, *[ANSWER] * 5, question=replace(QUESTION, model="vllm:other"))
    await again.close()
    ((texts, distinct),) = server.query(database, "SELECT COUNT(*), COUNT(DISTINCT body) FROM texts")
    # Two models, three roles, one of parameters, two messages of which one is the reply too, and four more.
    assert texts == distinct == 2 + 3 + 1 + 2 + 3


async def test_the_first_reply_stays_and_whoever_comes_later_goes_on_with_it(
    journal: PostgresJournal, server: PostgresServer, database: str
) -> None:
    others = [opened(server, database) for _ in range(3)]
    kept = await asyncio.gather(
        *(keep(one, replace(ANSWER, text=f"reply {number}")) for number, one in enumerate(others))
    )
    assert len({one[0].text for one in kept}) == 1
    assert await journal.find_all([QUESTION]) == kept[0]
    await asyncio.gather(*(one.close() for one in others))
    same = await asyncio.gather(keep(journal, ANSWER), keep(journal, replace(ANSWER, text="late")))
    assert list(same) == [kept[0], kept[0]]


async def test_a_rejected_answer_stays_until_it_is_forgotten(journal: PostgresJournal) -> None:
    await keep(journal, ANSWER)
    await journal.reject_all([QUESTION.key])
    assert await journal.find_all([QUESTION]) == {0: ANSWER}
    await journal.forget_rejected()
    assert await journal.find_all([QUESTION]) == {}
    newer = replace(ANSWER, text="newer")
    assert await keep(journal, newer) == {0: newer}
    assert await journal.find_all([QUESTION]) == {0: newer}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE calls SET input_tokens = 12",
        "UPDATE texts SET body = 'T'::bytea || 'another'::bytea WHERE hash = (SELECT reply FROM calls)",
        "DELETE FROM texts WHERE hash = (SELECT server FROM calls)",
    ],
)
async def test_what_was_changed_is_not_replayed(
    journal: PostgresJournal, server: PostgresServer, database: str, damage: str
) -> None:
    await keep(journal, ANSWER)
    server.query(database, damage)
    with pytest.raises(JournalDamaged, match="not what was stored"):
        await journal.find_all([QUESTION])


async def test_the_copy_of_a_folder_has_every_call(
    journal: PostgresJournal, server: PostgresServer, database: str, tmp_path: Path
) -> None:
    for questions, answers in invented_requests(40):
        await journal.keep_all(list(zip(questions, answers, strict=True)), role="label", case_id="c")
    await keep(journal, ANSWER)
    await journal.reject_all([QUESTION.key])
    address = parse_store(server.url(database))
    path = tmp_path / "calls.sqlite"
    for _ in range(2):
        async with connected(address) as connection, connection.transaction():
            await copy_journal(address, connection, path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["calls.sqlite", "calls.sqlite.count"]
    with closing(Journal(path)) as copied:
        assert copied.count() == 121
        assert copied.find(QUESTION) == ANSWER
        assert [message.text for message in copied.conversation(QUESTION.key)] == ["Label.", ODD, ODD]
        for questions, answers in invented_requests(40):
            assert [copied.find(question) for question in questions] == answers
        assert copied.forget_rejected() == 1


async def test_a_reply_is_durable_before_it_is_used(
    journal: PostgresJournal, server: PostgresServer, database: str
) -> None:
    server.query("postgres", f'ALTER DATABASE "{database}" SET synchronous_commit = off')
    answers = [replace(ANSWER, text=f"reply {number}") for number in range(50)]
    assert await keep(journal, *answers)
    server.stop()
    server.start()
    again = opened(server, database)
    asked = [replace(QUESTION, sample=sample) for sample in range(50)]
    assert await again.find_all(asked) == dict(enumerate(answers))
    await again.close()


async def test_an_address_in_the_environment_leads_nowhere_else(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.2")
    monkeypatch.setenv("PGPASSWORD", server.password)
    async with connected(parse_store(server.url(database, password=False))) as connection:
        assert connection.info.hostaddr == "127.0.0.1"


async def test_a_wrong_password_is_one_line_without_it(server: PostgresServer, database: str) -> None:
    url = server.url(database).replace(server.password, "wrong-secret")
    with pytest.raises(JournalError, match=r"^store postgresql://127.*authentication failed") as refused:
        await PostgresJournal(parse_store(url), 0, lambda _: None).find_all([QUESTION])
    assert "wrong-secret" not in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(JournalError, match="authentication failed"):
        migrate(parse_store(url))
    with pytest.raises(JournalError, match="its parameters are not those of PostgreSQL") as unknown:
        migrate(parse_store(f"{server.url(database)}?no_such=1"))
    assert server.password not in str(unknown.value)
