"""The file of users: what it holds, who may read it, and what a token opens."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from access import users
from access.users import Users, default_file
from cli.main import app
from runs.record.audit import read_audit
from storage.errors import InputError
from tests.viewer.people import TODAY


@pytest.fixture
def known(tmp_path: Path) -> Users:
    return Users(tmp_path / "people" / "users.json")


def invoke(*arguments: str | Path) -> str:
    ended = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_token_opens_for_whom_it_was_made_and_is_kept_nowhere(known: Users) -> None:
    made, token = known.add("Ana López", "review", TODAY)
    _, other = known.add("bert", "view", TODAY)
    assert token != other
    found = known.of_token(f" {token}\n", TODAY)
    assert found == made == known.get("Ana López") and known.of_token(other, TODAY) == known.get("bert")
    secret = token.split("-", 2)[2]
    for path in known.path.parent.iterdir():
        assert secret not in path.read_text("utf-8")


@pytest.mark.parametrize(
    "change", ["", "x", "evigraph", "evigraph--", "evigraph-{id}-", "evigraph-{id}-é\ud800"]
)
def test_nothing_else_opens(known: Users, change: str) -> None:
    made, token = known.add("ana", "review", TODAY)
    given = change.format(id=made.id)
    assert known.of_token(given, TODAY) is None
    assert known.of_token(token + "x", TODAY) is None and known.of_token(token[:-1], TODAY) is None


def test_a_token_without_a_user_costs_nothing(known: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = known.add("ana", "review", TODAY)
    costs: list[object] = []
    real = users._hashed

    def hashed(secret: str, salt: str, cost: tuple[int, int, int]) -> str:
        costs.append(cost)
        return real(secret, salt, cost)

    monkeypatch.setattr(users, "_hashed", hashed)
    for token in (f"evigraph-{made.id}-wrong", "evigraph-000000000000-wrong", "nothing"):
        known.of_token(token, TODAY)
    assert len(costs) == 1


def test_a_token_expires_on_its_day(known: Users) -> None:
    _, token = known.add("ana", "review", TODAY, days=30)
    assert known.of_token(token, TODAY + timedelta(days=30, seconds=-1)) is not None
    assert known.of_token(token, TODAY + timedelta(days=30)) is None


def test_a_new_token_ends_the_old_one_and_keeps_the_role(known: Users) -> None:
    _, old = known.add("ana", "review", TODAY, days=3)
    made, new = known.add("ana", None, TODAY, renew=True)
    assert (made.role, made.expires) == ("review", None)
    assert known.of_token(old, TODAY) is None and known.of_token(new, TODAY) == made
    known.remove("ana")
    assert known.of_token(new, TODAY) is None and known.all() == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Ana", "'ana' is there already"),
        ("a,b", "no commas"),
        ("(unknown)", "parenthesis"),
        (" a na ", "'a na' is there already"),
        ("", "empty"),
        ("a\x00b", "U\\+0000"),
        ("\u202eana", "U\\+202E"),
    ],
)
def test_a_name_that_misleads_is_refused(known: Users, name: str, words: str) -> None:
    known.add("ana", "review", TODAY)
    known.add("a na", "review", TODAY)
    with pytest.raises(InputError, match=words):
        known.add(name, "admin", TODAY)
    assert [one.name for one in known.all()] == ["ana", "a na"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("files", ["owner", "group", "umask"])
def test_the_file_is_for_its_owner_alone(
    known: Users, umask: int, files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIGRAPH_FILES", files)
    before = os.umask(umask)
    try:
        known.add("ana", "review", TODAY)
        known.add("ana", None, TODAY, renew=True)
    finally:
        os.umask(before)
    assert known.path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_may_read_or_write_is_refused(known: Users) -> None:
    known.add("ana", "review", TODAY)
    known.path.chmod(0o640)
    with pytest.raises(InputError, match=r"other users .* chmod 600"):
        Users(known.path).all()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"users": [{"name": "ana"}]}', '{"people": []}'])
def test_a_damaged_file_lets_nobody_in(known: Users, text: str) -> None:
    _, token = known.add("ana", "review", TODAY)
    known.path.write_text(text)
    with pytest.raises(InputError, match=r"users\.json"):
        known.of_token(token, TODAY)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir(mode=0o700)
    for path, words in ((tmp_path / "file" / "u.json", "Not a dir"), (tmp_path / "folder", "Is a dir")):
        with pytest.raises(InputError, match=f"{path}: cannot be read: {words}"):
            Users(path).all()


def test_two_that_add_at_once_are_both_there(known: Users) -> None:
    names = [f"user {number}" for number in range(8)]
    threads = [threading.Thread(target=Users(known.path).add, args=(name, "view", TODAY)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.name for one in known.all()) == names


def test_the_command_prints_a_token_once_and_notes_what_it_did(tmp_path: Path) -> None:
    file = tmp_path / "u.json"
    token = invoke("users", "add", "ana", "--role", "review", "--days", "9", "--users", file).strip()
    assert Users(file).all()[0].id in token
    made = json.loads(invoke("users", "add", "ana", "--renew", "--users", file, "--json"))
    assert (made["name"], made["role"], made["expires"]) == ("ana", "review", None)
    assert made["token"].startswith("evigraph-") and made["token"] != token
    listed = invoke("users", "list", "--users", file)
    assert "ana" in listed and "review" in listed and made["token"] not in listed
    assert "ana is removed" in invoke("users", "remove", "ana", "--users", file).replace("\n", " ")
    assert "no users" in invoke("users", "list", "--users", file).replace("\n", " ")
    events = [(line.fields or {})["event"] for line in read_audit(tmp_path)]
    assert events == ["user_added", "user_renewed", "user_removed"]
    assert token.split("-", 2)[2] not in (tmp_path / "audit.jsonl").read_text()


def test_the_list_says_when_a_token_expires(known: Users) -> None:
    for name, year in (("ben", 2020), ("cy", 2120)):
        known.add(name, "view", datetime(year, 11, 23, tzinfo=UTC), days=1)
    lines = invoke("users", "list", "--users", known.path).splitlines()[-2:]
    assert [line.split()[3:] for line in lines] == [["2020-11-24", "(expired)"], ["2120-11-24"]]


def test_a_new_user_needs_a_role_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    for arguments, words in (
        (("add", "ana"), "needs a role"),
        (("add", "ana", "--renew"), "no user 'ana'"),
        (("remove", "ana"), "no user 'ana'"),
    ):
        ended = CliRunner().invoke(app, ["users", *arguments, "--users", str(tmp_path / "u.json")])
        assert isinstance(ended.exception, InputError) and words in str(ended.exception)
    assert not (tmp_path / "u.json").exists()


def test_users_are_in_the_configuration_where_no_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(users, "user_config_path", lambda name: tmp_path / name)
    invoke("users", "add", "ana", "--role", "view")
    assert default_file() == tmp_path / "evigraph" / "users.json" and default_file().is_file()
