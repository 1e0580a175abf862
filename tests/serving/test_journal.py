from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from serving.journal.journal import Journal, JournalDamaged, JournalError, _retry_locked, errors_of
from serving.journal.purge import purge_calls
from serving.journal.repair import look
from serving.journal.tables import create, unpack
from serving.protocol.messages import Answer, Message, TokenLogprob
from serving.protocol.request import AnyRequest
from tests.serving.asks import as_sent

SYSTEM = Message("system", "Label each sentence. " * 500)
QUESTION = as_sent(messages=(SYSTEM, Message("user", "Why?")), model="vllm:tiny", revision="r1")
KEY = QUESTION.key(0)
ANSWER = Answer('{"1": "essential"}', "stop", 11, 5, 3, 0.25, 2)

ODD = "לב תקין 🫀 e\u0301 \u2028 \x00 {} '; DROP TABLE calls; --"

WRITER = """
import sys
from pathlib import Path
from serving.protocol.messages import Answer
from serving.journal.journal import Journal
from serving.protocol.messages import Message
from tests.serving.asks import as_sent

journal = Journal(Path(sys.argv[1]))
for number in range(10_000):
    asked = as_sent(messages=(Message("user", str(number)),))
    journal.store(asked, {0: Answer(f"reply {number}", "stop", 1, 1, 0, 0.1, 0)})
    print(number, flush=True)
"""


TWO_WRITERS = f"""
import sys
from pathlib import Path
from serving.protocol.messages import Answer
from serving.journal.journal import Journal
from serving.protocol.messages import Message
from tests.serving.asks import as_sent

journal = Journal(Path(sys.argv[1]))
system = Message("system", {SYSTEM.text!r})
for number in range(100):
    asked = as_sent(messages=(system, Message("user", f"Question {{number}}")), model=sys.argv[2])
    journal.store(asked, {{0: Answer("All are.", "stop", 1, 1)}})
journal.close()
"""


def store(journal: Journal, request: AnyRequest = QUESTION, answer: Answer = ANSWER) -> None:
    journal.store(request, dict.fromkeys(request.samples, answer))


def sent(text: str, sample: int = 0) -> AnyRequest:
    return replace(QUESTION, messages=(SYSTEM, Message("user", text)), samples=(sample,))


def stored_texts(journal: Journal) -> list[str]:
    """All texts but the short ones, such as roles, and the parameters."""
    with sqlite3.connect(journal.path) as database:
        bodies = [unpack(body) for (body,) in database.execute("SELECT body FROM texts")]
    database.close()
    return [text for text in bodies if " " in text and "temperature" not in text]


def test_an_answer_survives_closing(tmp_path: Path) -> None:
    for _ in range(2):
        journal = Journal(tmp_path / "calls.sqlite")
        store(journal)
        journal.close()
    again = Journal(tmp_path / "calls.sqlite")
    assert (again.find(KEY), again.count()) == (ANSWER, 1)
    again.close()


def test_odd_texts_come_back(journal: Journal) -> None:
    for text in (ODD, ODD * 100, "half \ud83d a pair", "\x00", ""):
        store(journal, sent(text), replace(ANSWER, text=text))
        assert journal.find(sent(text).key(0)) == replace(ANSWER, text=text)
        assert journal.conversation(sent(text).key(0))[1:] == [
            Message("user", text),
            Message("assistant", text),
        ]


def test_a_follow_up_stores_its_new_turns_only(journal: Journal) -> None:
    store(journal, sent("Why now?"))
    turns = (Message("assistant", ANSWER.text), Message("user", "Check your labels."))
    follow_up = replace(QUESTION, messages=sent("Why now?").messages + turns)
    store(journal, follow_up, replace(ANSWER, text="None are essential."))
    assert sorted(stored_texts(journal)) == sorted(
        [SYSTEM.text, "Why now?", ANSWER.text, "Check your labels.", "None are essential."]
    )
    assert journal.conversation(follow_up.key(0))[2:4] == list(turns)


def test_the_file_is_smaller_than_its_texts(journal: Journal) -> None:
    draw = random.Random(7)
    words = [f"{draw.randrange(10**6)} " for _ in range(500)]
    notes = [f"{case}: {''.join(draw.choices(words, k=400))}" for case in range(100)]
    for note in notes:
        store(journal, sent(note), replace(ANSWER, text=note[::-1]))
    journal.close()
    assert journal.path.stat().st_size < sum(2 * len(note) for note in notes)


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, model="vllm:other"),
        replace(QUESTION, revision="r2"),
        replace(QUESTION, messages=(SYSTEM, Message("user", "Why? "))),
        replace(QUESTION, messages=(SYSTEM, Message("assistant", "Why?"))),
        replace(QUESTION, messages=QUESTION.messages[::-1]),
        replace(QUESTION, temperature=0.6),
        replace(QUESTION, max_tokens=41),
        replace(QUESTION, seed=0),
        replace(QUESTION, logprobs=True),
        replace(QUESTION, effort="low"),
        replace(QUESTION, widened=True),
        replace(QUESTION, reply=replace(QUESTION.reply, schema={})),
        replace(QUESTION, reply=replace(QUESTION.reply, choices=("yes", "no"))),
    ],
)
def test_the_key_changes_with_each_field(other: AnyRequest) -> None:
    assert other.key(0) != KEY
    assert len({replace(other, samples=(0, 1)).key(sample) for sample in (0, 1)}) == 2


def test_the_way_a_request_is_sent_leaves_its_key() -> None:
    assert replace(QUESTION, constraint="tool", effort_word="x", case_id="8", role="answer").key(0) == KEY


def test_texts_that_join_to_the_same_have_different_keys() -> None:
    def split(*texts: str) -> str:
        return replace(QUESTION, messages=tuple(Message("user", text) for text in texts)).key(0)

    assert len({split("a", "bc"), split("ab", "c"), split("abc"), split('a", "bc')}) == 4


def test_all_that_was_stored_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(50):
            number = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    journal = Journal(path)
    assert number == 49
    for stored in range(50):
        key = as_sent(messages=(Message("user", str(stored)),)).key(0)
        found = journal.find(key)
        assert found is not None and found.text == f"reply {stored}"
        assert journal.conversation(key)[0] == Message("user", str(stored))
    journal.close()


def test_a_rejected_answer_stays_until_it_is_forgotten(journal: Journal) -> None:
    store(journal)
    store(journal, sent("Another one."))
    journal.reject([KEY, "no such key"])
    assert journal.find(KEY) == ANSWER
    assert (journal.forget_rejected(), journal.forget_rejected()) == (1, 0)
    assert journal.find(KEY) is None
    assert journal.find(sent("Another one.").key(0)) == ANSWER


def test_a_new_answer_is_not_rejected_any_more(journal: Journal) -> None:
    store(journal)
    journal.reject([KEY])
    store(journal)
    assert journal.forget_rejected() == 0


def test_a_place_that_is_none(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "calls.sqlite"):
        with pytest.raises(JournalError, match=str(path)):
            Journal(path)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("version", "remedy"), [(6, "older.*start the run anew"), (99, "newer.*update first")]
)
def test_a_journal_of_another_schema_is_refused_and_left_alone(
    tmp_path: Path, version: int, remedy: str, read_only: bool
) -> None:
    path = tmp_path / "calls.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version={version}")
    database.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match=rf"calls\.sqlite: .*{remedy}") as caught:
        Journal(path, read_only=read_only)
    assert len(str(caught.value).splitlines()) == 1
    assert path.read_bytes() == before


def test_a_journal_of_an_earlier_schema_is_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=6")
    database.close()
    with pytest.raises(JournalError, match=r"calls\.sqlite: written by an older Evigraph \(schema 6\)"):
        look(path)


@pytest.mark.parametrize(
    ("work", "fault"),
    [
        ("BEGIN IMMEDIATE", "locked; is the run shown or written by another process"),
        ("BEGIN; SELECT COUNT(*) FROM calls", "another process reads it; end it"),
    ],
)
def test_a_journal_that_others_use_is_not_purged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, fault: str
) -> None:
    monkeypatch.setattr("serving.journal.files.LOCK_SECONDS", 0.01)
    path = tmp_path / "calls.sqlite"
    journal = Journal(path)
    store(journal)
    journal.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in work.split("; "):
            other.execute(statement).fetchall()
        with pytest.raises(JournalError, match=fault):
            purge_calls(path, None)
    assert purge_calls(path, None)[0] == (0 if "reads" in fault else 1)


def test_a_full_disk_is_a_journal_error_and_keeps_what_is_there(journal: Journal) -> None:
    store(journal)
    (pages,) = journal._database.execute("PRAGMA page_count").fetchone()
    journal._database.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(JournalError, match="full"):
        store(journal, sent(random.Random(7).randbytes(80_000).hex()))
    assert (journal.find(KEY), journal.count()) == (ANSWER, 1)


def test_texts_of_a_write_that_failed_are_stored_by_the_next(journal: Journal) -> None:
    store(journal)
    (pages,) = journal._database.execute("PRAGMA page_count").fetchone()
    journal._database.execute(f"PRAGMA max_page_count={pages}")
    long = Message("user", random.Random(7).randbytes(80_000).hex())
    question = replace(QUESTION, messages=(Message("user", "First."), long))
    with pytest.raises(JournalError, match="full"):
        store(journal, question)
    journal._database.execute("PRAGMA max_page_count=100000")
    store(journal, question)
    assert journal.conversation(question.key(0))[0].text == "First."


def test_two_processes_may_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    command = [sys.executable, "-c", TWO_WRITERS, str(path)]
    writers = [subprocess.Popen([*command, name]) for name in ("one", "two")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    journal = Journal(path)
    assert journal.count() == 200
    texts = stored_texts(journal)
    assert len(texts) == len(set(texts)) == 102
    for name in ("one", "two"):
        last = as_sent(messages=(SYSTEM, Message("user", "Question 99")), model=name)
        assert journal.conversation(last.key(0)) == [*last.messages, Message("assistant", "All are.")]
    journal.close()


def test_opening_waits_for_a_process_that_creates_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calls.sqlite"
    creating = sqlite3.connect(path, isolation_level=None)
    creating.execute("BEGIN IMMEDIATE")
    create(creating)
    waits = []

    def finish_creating(seconds: float) -> None:
        waits.append(seconds)
        creating.execute("COMMIT")
        creating.close()

    monkeypatch.setattr(_retry_locked, "sleep", finish_creating)
    journal = Journal(path)
    store(journal)
    assert journal.find(KEY) == ANSWER
    assert len(waits) == 1
    journal.close()


def test_a_read_only_file_is_a_journal_error(journal: Journal) -> None:
    store(journal)
    journal._database.execute("PRAGMA query_only=1")
    writes: list[Callable[[], object]] = [
        lambda: store(journal),
        lambda: journal.reject([KEY]),
        journal.forget_rejected,
    ]
    for write in writes:
        with pytest.raises(JournalError, match="readonly"):
            write()
    assert journal.find(KEY) == ANSWER


READS: list[Callable[[Journal], object]] = [
    lambda journal: journal.find(KEY),
    lambda journal: journal.count(),
    lambda journal: journal.conversation(KEY),
]


@pytest.mark.parametrize("read", READS, ids=["find", "count", "conversation"])
def test_a_damaged_file_is_a_journal_error(tmp_path: Path, read: Callable[[Journal], object]) -> None:
    path = tmp_path / "calls.sqlite"
    journal = Journal(path)
    store(journal)
    journal.close()
    content = path.read_bytes()
    # The first page tells what tables there are; what they hold follows.
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    damaged = Journal(path, read_only=True)
    with pytest.raises(JournalDamaged, match="malformed; check its content: evigraph check"):
        read(damaged)
    damaged.close()
    with pytest.raises(JournalDamaged, match="malformed"):
        Journal(path)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE texts SET body = x'00' WHERE id = (SELECT reply FROM calls)", "a text is malformed"),
        (
            "UPDATE texts SET body = 'other' WHERE id = (SELECT reply FROM calls)",
            "its checksum does not match",
        ),
        ("DELETE FROM texts WHERE id = (SELECT reply FROM calls)", "a text is missing"),
        ("UPDATE calls SET input_tokens = 12", "its checksum does not match"),
    ],
)
def test_a_reply_that_is_damaged_is_not_replayed_and_stored_anew(
    tmp_path: Path, damage: str, fault: str
) -> None:
    journal = Journal(tmp_path / "calls.sqlite")
    store(journal)
    journal._database.execute(damage)
    journal.close()
    again = Journal(tmp_path / "calls.sqlite")
    with pytest.raises(JournalDamaged, match=rf"calls\.sqlite: .*{fault}.*; check its content"):
        again.find(KEY)
    store(again)
    assert again.find(KEY) == ANSWER
    again.close()


def test_a_prompt_whose_text_is_missing_is_damage(journal: Journal) -> None:
    store(journal)
    journal._database.execute("DELETE FROM texts WHERE id = (SELECT substr(prompt, 3, 1) FROM calls)")
    with pytest.raises(JournalDamaged, match="is missing; the file is malformed"):
        journal.conversation(KEY)


def test_replies_that_were_counted_and_are_gone_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    journal = Journal(path)
    store(journal)
    journal.close()
    path.unlink()
    with pytest.raises(JournalDamaged, match="1 of 1 stored replies are missing; was"):
        Journal(path)


def test_numbers_of_texts_are_forgotten_before_they_fill_the_memory(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.journal.tables._MAX_KNOWN", 2)
    for _ in range(2):
        store(journal, sent("Why now?"))
    assert len(journal._texts._known) <= 2
    assert stored_texts(journal) == [SYSTEM.text, "Why now?", ANSWER.text]


def test_a_failure_of_the_system_names_its_file(tmp_path: Path) -> None:
    for error, place in ((OSError(5, "I/O", "/other"), "/other: I/O"), (OSError("odd"), "a.sqlite: odd")):
        with pytest.raises(JournalError, match=place), errors_of(tmp_path / "a.sqlite"):
            raise error


def test_the_usage_is_the_sum_over_the_calls_of_each_model(journal: Journal) -> None:
    for sample in (0, 1):
        store(journal, sent("Why?", sample))
    store(journal, replace(QUESTION, model="vllm:other"))
    assert journal.tokens() == {"vllm:tiny": (22, 10, 6), "vllm:other": (11, 5, 3)}


def test_server_and_log_probabilities_come_back(journal: Journal) -> None:
    logprobs = (TokenLogprob("yes", -0.1, (("yes", -0.1), ("no", -2.5))), TokenLogprob(".", -1e-9, ()))
    answer = replace(ANSWER, server="http://127.0.0.1:8000/v1", logprobs=logprobs)
    store(journal, answer=answer)
    assert journal.find(KEY) == answer


def test_copied_calls_bring_their_texts(journal: Journal, tmp_path: Path) -> None:
    store(journal)
    store(journal, sent("What else?"))
    other = Journal(tmp_path / "other.sqlite")
    journal.copy_calls([KEY, "a key of no call"], other)
    assert (other.count(), other.find(KEY)) == (1, ANSWER)
    assert other.conversation(KEY) == journal.conversation(KEY)
    other.close()


async def test_the_event_loop_does_not_wait_for_a_commit(tmp_path: Path) -> None:
    requests = [replace(QUESTION, samples=(sample,)) for sample in range(3)]
    together = replace(QUESTION, samples=(0, 1, 2))
    journal = Journal(tmp_path / "calls.sqlite")
    store(journal)
    with contextlib.closing(sqlite3.connect(tmp_path / "calls.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        kept = [
            asyncio.ensure_future(journal.keep_all(one, {sample: ANSWER}))
            for sample, one in enumerate(requests[1:], start=1)
        ]
        await asyncio.sleep(0.05)
        # Others are found meanwhile, and what is not committed is not.
        assert await journal.find_all(together) == {0: ANSWER}
        assert not any(one.done() for one in kept)
        other.rollback()
    await asyncio.gather(*kept)
    assert await journal.find_all(together) == {0: ANSWER, 1: ANSWER, 2: ANSWER}
    journal.close()


async def test_what_was_answered_is_stored_when_the_journal_is_closed(tmp_path: Path) -> None:
    requests = [replace(QUESTION, samples=(sample,)) for sample in range(3)]
    journal = Journal(tmp_path / "calls.sqlite")
    kept = [
        asyncio.ensure_future(journal.keep_all(one, {sample: ANSWER})) for sample, one in enumerate(requests)
    ]
    await asyncio.sleep(0)
    for one in kept:
        one.cancel()
    journal.close()
    reader = Journal(tmp_path / "calls.sqlite", read_only=True)
    assert reader.count() == 3
    reader.close()
