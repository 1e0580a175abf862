"""Journals that earlier versions have written."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from serving.journal import Answer, Journal, JournalError, Question, text_hash
from serving.journal_tables import SCHEMA_VERSION
from serving.messages import Message
from serving.reply import TokenLogprob

ANSWER = Answer('{"1": "essential"}', "stop", 11, 5, 3, 0.25, 2)
LATER = replace(ANSWER, server="http://127.0.0.1:8000/v1", logprobs=(TokenLogprob("yes", -0.1),))
"""What version 2 keeps of an answer and version 1 does not."""

_VERSION_1 = """
CREATE TABLE texts (hash TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE calls (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, role TEXT NOT NULL, case_id TEXT NOT NULL,
    sample INTEGER NOT NULL, prompt TEXT NOT NULL, parameters TEXT NOT NULL, reply TEXT NOT NULL,
    finish_reason TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, seconds REAL NOT NULL, retries INTEGER NOT NULL,
    rejected INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
PRAGMA user_version=1;
"""
_VERSION_2 = """
ALTER TABLE calls ADD COLUMN server TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN logprobs TEXT NOT NULL DEFAULT '';
PRAGMA user_version=2;
"""


def question(number: int) -> Question:
    messages = (Message("system", "Label each sentence. " * 100), Message("user", f"Why? {number}"))
    return Question("vllm:tiny", "r1", messages, {"temperature": 0.5}, 0)


def write(path: Path, version: int, calls: int) -> None:
    """A journal as that version wrote it; every second reply is rejected."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(_VERSION_1 + (_VERSION_2 if version == 2 else ""))
        for number in range(calls):
            asked = question(number)
            parameters = json.dumps(asked.parameters)
            texts = [message.text for message in asked.messages] + [parameters]
            database.executemany(
                "INSERT OR IGNORE INTO texts VALUES (?, ?)", [(text_hash(text), text) for text in texts]
            )
            prompt = json.dumps([(message.role, text_hash(message.text)) for message in asked.messages])
            row = (
                *(asked.key, asked.model, "label", f"k{number}", 0, prompt),
                # The first journals of version 1 held the parameters themselves.
                *(parameters if version == 1 else text_hash(parameters), ANSWER.text, "stop"),
                *(11, 5, 3, 0.25, 2, (number + 1) % 2),
                *((LATER.server, json.dumps(LATER.logprobs)) if version == 2 else ()),
            )
            database.execute(f"INSERT INTO calls VALUES ({','.join('?' * len(row))})", row)
    database.close()


def version_of(path: Path) -> int:
    with sqlite3.connect(path) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return int(version)


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Answer]:
    """A journal of an earlier version with two calls, and the answer of both."""
    path = tmp_path / "old.sqlite"
    write(path, request.param, calls=2)
    return path, ANSWER if request.param == 1 else LATER


def test_an_old_journal_keeps_its_answers(old: tuple[Path, Answer]) -> None:
    path, answer = old
    for _ in range(2):
        journal = Journal(path)
        assert [journal.find(question(number)) for number in (0, 1, 2)] == [answer, answer, None]
        assert journal.conversation(question(1).key) == [
            *question(1).messages,
            Message("assistant", answer.text),
        ]
        assert journal.tokens() == {"vllm:tiny": (22, 10, 6)}
        journal.close()
    assert version_of(path) == SCHEMA_VERSION


def test_an_old_journal_goes_on(old: tuple[Path, Answer]) -> None:
    journal = Journal(old[0])
    journal.store(question(2), LATER, role="label", case_id="k2")
    assert (journal.count(), journal.forget_rejected()) == (3, 1)
    assert [journal.find(question(number)) for number in (0, 1, 2)] == [None, old[1], LATER]
    journal.close()


def test_an_old_journal_can_be_read_without_changing_it(old: tuple[Path, Answer]) -> None:
    path, answer = old
    before = path.read_bytes()
    journal = Journal(path, read_only=True)
    assert (journal.count(), journal.find(question(1))) == (2, answer)
    assert journal.conversation(question(1).key)[-1].text == answer.text
    with pytest.raises(JournalError, match="readonly"):
        journal.reject([question(1).key])
    journal.close()
    assert path.read_bytes() == before


def test_an_old_journal_becomes_smaller(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    write(path, 2, calls=300)
    before = path.stat().st_size
    Journal(path).close()
    assert path.stat().st_size < before / 2


def test_a_conversion_that_fails_midway_changes_nothing(old: tuple[Path, Answer]) -> None:
    path, _ = old
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM texts WHERE body LIKE 'Why? 1'")
    database.close()
    version = version_of(path)
    for read_only in (False, True):
        with pytest.raises(JournalError, match=r"malformed: its text .* is missing"):
            Journal(path, read_only=read_only)
    assert version_of(path) == version
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT COUNT(*), MIN(length(key)) FROM calls").fetchone() == (2, 64)
    database.close()


_KILLED = """
import os, signal, sys
from pathlib import Path
from serving import journal_upgrade
from serving.journal import Journal

rows = journal_upgrade._rows
def killed_midway(*arguments):
    for number, row in enumerate(rows(*arguments)):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield row
journal_upgrade._rows = killed_midway
Journal(Path(sys.argv[1]))
"""


def test_a_conversion_that_is_killed_midway_is_made_by_the_next(old: tuple[Path, Answer]) -> None:
    path, answer = old
    assert (
        subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False).returncode == -signal.SIGKILL
    )
    assert version_of(path) < SCHEMA_VERSION
    journal = Journal(path)
    assert (journal.count(), journal.find(question(1))) == (2, answer)
    journal.close()


def test_two_processes_may_open_an_old_journal_at_once(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    write(path, 2, calls=300)
    code = "import sys; from pathlib import Path; from serving.journal import Journal as J;"
    code += " print(J(Path(sys.argv[1])).count())"
    opened = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=120)[0] for process in opened] == ["300\n", "300\n"]
