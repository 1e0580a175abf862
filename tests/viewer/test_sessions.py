"""Sessions end, and failed attempts are few; both by a clock that the test moves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from access import sessions
from access.sessions import ATTEMPTS, IDLE, LONGEST, WINDOW, Attempts, Sessions
from access.users import Users
from tests.viewer.people import TODAY, Clock


class Kept:
    def __init__(self, folder: Path) -> None:
        self.users, self.clock, self.today = Users(folder / "users.json"), Clock(), TODAY
        self.ends: list[tuple[str, str]] = []
        self.sessions = Sessions(
            self.users, self.clock, lambda: self.today, lambda who, why: self.ends.append((who.name, why))
        )

    def begin(self, name: str = "ana", days: int | None = None) -> str:
        user, _ = self.users.add(name, "review", TODAY, days=days)
        return self.sessions.begin(user)[0]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_session_ends_once_nobody_comes_back(kept: Kept) -> None:
    key = kept.begin()
    for _ in range(3):
        kept.clock.at += IDLE - 1
        person = kept.sessions.person(key)
        assert person is not None and (person.name, person.role) == ("ana", "review")
    kept.clock.at += IDLE
    assert kept.sessions.person(key) is None and kept.ends == [("ana", "idle")]
    assert kept.sessions.person(key) is None and len(kept.ends) == 1


def test_a_session_ends_after_a_day_of_work_however_much_it_is_used(kept: Kept) -> None:
    key = kept.begin()
    for _ in range(int(LONGEST / 600) - 1):
        kept.clock.at += 600
        assert kept.sessions.person(key) is not None
    kept.clock.at += 600
    assert kept.sessions.person(key) is None and kept.ends == [("ana", "too long")]


def test_it_ends_with_its_user_and_with_the_token(kept: Kept) -> None:
    gone, renewed, expired = kept.begin("gone"), kept.begin("renewed"), kept.begin("expired", days=1)
    kept.users.remove("gone")
    kept.users.add("renewed", None, TODAY, renew=True)
    kept.today += timedelta(days=1)
    assert [kept.sessions.person(key) for key in (gone, renewed, expired)] == [None] * 3
    assert kept.ends == [("gone", "removed"), ("renewed", "renewed"), ("expired", "expired")]


def test_nobody_lasts_while_the_list_of_users_cannot_be_read(kept: Kept) -> None:
    person = kept.sessions.person(kept.begin())
    assert person is not None and person.lasts()
    kept.users.path.write_text("{")
    assert not person.lasts()


def test_a_user_who_is_added_anew_does_not_come_back_in(kept: Kept) -> None:
    key = kept.begin()
    kept.users.remove("ana")
    kept.users.add("ana", "admin", TODAY)
    assert kept.sessions.person(key) is None


def test_all_sessions_end_with_the_server(kept: Kept) -> None:
    keys = [kept.begin("ana"), kept.begin("bert")]
    kept.sessions.close()
    assert kept.ends == [("ana", "the server has ended"), ("bert", "the server has ended")]
    assert [kept.sessions.person(key) for key in keys] == [None, None]


def test_sessions_that_nobody_came_back_to_are_swept(kept: Kept) -> None:
    kept.begin("ana")
    kept.clock.at += IDLE - 1
    kept.begin("bert")
    kept.clock.at += 1
    kept.sessions.sweep()
    assert kept.ends == [("ana", "idle")]


def test_neither_the_key_nor_the_label_in_the_log_lead_to_the_other(kept: Kept) -> None:
    key = kept.begin()
    person = kept.sessions.person(key)
    assert person is not None and len(person.session) == 8
    assert key not in str(vars(kept.sessions)) and person.session not in key
    assert not any(hashed.startswith(person.session) for hashed in kept.sessions._sessions)


def test_a_success_forgets_the_failures() -> None:
    attempts = Attempts(Clock())
    for _ in range(ATTEMPTS - 1):
        attempts.take("a")
    attempts.take("a")
    attempts.succeeded("a")
    assert attempts.take("a") == 0


def test_addresses_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_COUNTED", 3)
    clock = Clock()
    attempts = Attempts(clock)
    assert [attempts.take(str(number)) for number in range(4)] == [0, 0, 0, WINDOW]
    clock.at += WINDOW
    assert attempts.take("4") == 0 and len(attempts._failed) == 1
