from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from serving.journal.journal import Journal, JournalDamaged, JournalError
from serving.journal.merge import MergedJournal
from serving.journal.repair import look
from serving.protocol.messages import Answer, Message
from serving.protocol.request import AnyRequest
from tests.serving.asks import as_sent

ODD = "לב תקין 🫀 \x00 '; DROP TABLE calls; --"


def question(text: str) -> AnyRequest:
    turns = (Message("system", "Shared by all."), Message("user", text))
    return as_sent(messages=turns, case_id=text)


def journal(path: Path, *answered: tuple[str, str], rejected: bool = False) -> Path:
    with closing(Journal(path)) as made:
        for text, reply in answered:
            asked = question(text)
            made.store(asked, {0: Answer(reply, "stop", 3, 2, 1, 0.5, 1, "http://a", ())})
            if rejected:
                made.reject([asked.key(0)])
    return path


def merged(tmp_path: Path, *journals: Path) -> tuple[Path, MergedJournal]:
    path = tmp_path / "merged.sqlite"
    made = MergedJournal(path)
    for one in journals:
        made.add(one)
    made.close()
    return path, made


def test_every_call_is_found_again_as_it_was(tmp_path: Path) -> None:
    one = journal(tmp_path / "one.sqlite", ("a", "Yes."), (ODD, f"{ODD}\ud800"), ("long", "x" * 5000))
    two = journal(tmp_path / "two.sqlite", ("b", "Yes."), ("c", "Shared by all."))
    path, made = merged(tmp_path, one, two)
    assert (made.calls, made.conflicts) == (5, 0)
    assert look(path).faults == [] and look(path).calls == 5
    with closing(Journal(path)) as found:
        for source in (one, two):
            with closing(Journal(source, read_only=True)) as of:
                for text in ("a", "b", "c", ODD, "long"):
                    key = question(text).key(0)
                    if of.has(key):
                        assert found.find(key) == of.find(key)
                        assert found.conversation(key) == of.conversation(key)
                        assert found.tokens_by_case()[text] == of.tokens_by_case()[text]
        # It goes on as a journal.
        found.store(question("d"), {0: Answer("No.", "stop", 1, 1)})
    assert look(path).faults == [] and look(path).calls == 6


def test_the_first_of_two_replies_is_kept_and_the_other_is_counted(tmp_path: Path) -> None:
    one = journal(tmp_path / "one.sqlite", ("a", "Yes."), ("b", "Yes."))
    two = journal(tmp_path / "two.sqlite", ("a", "No."), ("b", "Yes."))
    path, made = merged(tmp_path, one, two)
    assert (made.calls, made.conflicts) == (2, 1)
    with closing(Journal(path)) as found:
        answer = found.find(question("a").key(0))
        assert answer is not None and answer.text == "Yes."
    assert look(path).faults == []


def test_a_reply_that_could_be_used_comes_before_one_that_could_not(tmp_path: Path) -> None:
    one = journal(tmp_path / "one.sqlite", ("a", "?"), rejected=True)
    two = journal(tmp_path / "two.sqlite", ("a", "Yes."))
    path, _ = merged(tmp_path, one, two)
    with closing(Journal(path)) as found:
        assert found.forget_rejected() == 0
        answer = found.find(question("a").key(0))
    assert answer is not None and answer.text == "Yes."


def test_a_damaged_reply_is_refused(tmp_path: Path) -> None:
    one = journal(tmp_path / "one.sqlite", ("a", "Yes."))
    with closing(Journal(one)) as made:
        number = made._texts.number("Yes.")
        made._database.execute("UPDATE texts SET body='No.' WHERE id=?", (number,))
    with pytest.raises(JournalDamaged, match="case 'a' is damaged"):
        merged(tmp_path, one)


def test_a_lost_call_is_noticed(tmp_path: Path) -> None:
    one = journal(tmp_path / "one.sqlite", ("a", "Yes."), ("b", "No."))
    with closing(Journal(one)) as made:
        made._database.execute("DELETE FROM calls WHERE case_id='a'")
    with pytest.raises(JournalDamaged, match="1 of 2 replies are missing"):
        merged(tmp_path, one)


def test_a_journal_that_is_in_use_is_read_with_its_log(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "one.sqlite")) as made:
        made.store(question("a"), {0: Answer("Yes.", "stop", 1, 1)})
        assert merged(tmp_path, tmp_path / "one.sqlite")[1].calls == 1


@pytest.mark.parametrize("version", [6, 8])
def test_a_journal_of_another_schema_is_refused(tmp_path: Path, version: int) -> None:
    other = journal(tmp_path / "other.sqlite", ("a", "Yes."))
    with closing(sqlite3.connect(other, isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version={version}")
    with pytest.raises(JournalError, match=f"of schema {version}, and this version reads 7"):
        merged(tmp_path, other)
