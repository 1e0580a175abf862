from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from storage.errors import InputError
from tests.evigraph import write_recipe

NOTE = "Admitted after a fall.\nDr. Patel advised reversal. Vitamin K\x1b[2J 10 mg i.v. was given.\n"


def ask(*arguments: str, note: str = "-", typed: bytes = NOTE.encode()) -> Result:
    recipe = ("--recipe", str(write_recipe(Path())), "--model", "scripted:auto")
    return CliRunner().invoke(app, ["ask", *arguments, "--note", note, *recipe], input=typed)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_answer_comes_with_its_sentences_and_stays_in_a_run(folder: Path) -> None:
    (folder / "note.txt").write_text(NOTE)
    ended = ask("Why was vitamin K given?", note="note.txt")
    assert ended.exit_code == 0, ended.exception
    assert "These words were made up by a script." in ended.stdout
    assert "of 3 sentences" in ended.stdout and "3  Vitamin K\ufffd[2J 10 mg i.v. was given." in ended.stdout
    (run,) = folder.glob("out/*-ask/run")
    assert f"run: {run.relative_to(folder)}" in ended.stdout
    shown = CliRunner().invoke(app, ["show", str(run), "note"])
    assert "Why was vitamin K given?" in shown.stdout


def test_a_note_from_standard_input_as_one_object() -> None:
    ended = ask("Why?", "--out", "asked", "--json")
    answer = json.loads(ended.stdout)
    assert answer["answer"] and answer["status"] == "done" and answer["run"] == "asked/run"
    assert {"id": "2", "text": "Dr. Patel advised reversal."} in answer["sentences"]


@pytest.mark.parametrize(
    ("arguments", "typed", "fault"),
    [
        (("Why?",), b"", "standard input: its note is empty"),
        (("Why?",), b"a\nb\xe9", "standard input: line 2: not UTF-8"),
        (("Why?", "--out", "."), b"One.", ".: is there already"),
        (("Why?", "--max-connections", "1", "--model", "nope:x"), b"One.", "unknown provider 'nope'"),
        (("Why?", "--model", "scripted:none.jsonl", "--out", "x"), b"One.", "none.jsonl"),
    ],
)
def test_nothing_is_left_where_nothing_was_asked(
    folder: Path, arguments: tuple[str, ...], typed: bytes, fault: str
) -> None:
    recipe = ("--recipe", str(write_recipe(folder)))
    given = arguments if "--model" in arguments else (*arguments, "--model", "scripted:auto")
    ended = CliRunner().invoke(app, ["ask", *given, "--note", "-", *recipe], input=typed)
    assert fault in str(ended.exception)
    assert [path.name for path in folder.iterdir()] == ["lexical.yaml"]


def test_a_question_is_needed() -> None:
    ended = ask(" ")
    assert ended.exit_code == 2 and not isinstance(ended.exception, InputError)
