from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from evals.verification import RunVerification
from nodes.verification.support import Finding, Support
from tests.evigraph import edit_manifest, write_cases, write_recipe


def evigraph(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs below `out`, of which `out/deep/two` was written last."""
    folder = tmp_path_factory.mktemp("runs")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for place, count in (("out/one", 1), ("out/deep/two", 2)):
            cases, recipe = write_cases(Path("k.jsonl"), count), write_recipe(folder)
            given = ("--model", "scripted:auto", "--recipe", str(recipe), "--out", place)
            ended = evigraph("run", "tamu", str(cases), *given)
            assert ended.exit_code == 0, ended.exception
    finally:
        os.chdir(before)
    # Clocks of files are coarse.
    os.utime(folder / "out/one/run.json", ns=(1, 1))
    (folder / "out/two").mkdir()
    (folder / "out/two/run.json").write_text("{")
    os.utime(folder / "out/two/run.json", ns=(0, 0))
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")


def test_runs_are_listed_the_last_first_and_a_damaged_one_says_so() -> None:
    listed = json.loads(evigraph("runs", "--json").stdout)["runs"]
    assert [row["path"] for row in listed] == ["out/deep/two", "out/one", "out/two"]
    assert [(row["status"], row["done"], row["tokens"] > 0) for row in listed[:2]] == [
        ("finished", 2, True),
        ("finished", 1, True),
    ]
    shown = evigraph("runs").stdout
    assert "out/deep/two" in shown and "2/2" in shown and "unreadable" in shown
    assert shown.endswith("next: evigraph show last\n")
    assert "... and 2 more: --rows 3" in evigraph("runs", "--rows", "1").stdout


def test_a_run_of_an_unknown_system_has_a_row_that_says_so(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "out", tmp_path / "out")
    edit_manifest(tmp_path / "out" / "one", system="tamo")
    listed = json.loads(evigraph("runs", "--root", str(tmp_path / "out"), "--json").stdout)["runs"]
    assert [row.get("status") for row in listed] == [None, "finished", None]
    assert listed[0]["fault"] == "unknown system 'tamo'; did you mean 'tamu'?"
    assert "unknown system 'tamo'" in evigraph("runs", "--root", str(tmp_path / "out")).stdout


def test_every_command_takes_last_and_tags() -> None:
    assert "out/deep/two" in evigraph("show", "last").stdout
    assert "out/one has the tag first" in evigraph("runs", "tag", "out/one", "first").stdout
    assert "nothing to do" in evigraph("runs", "tag", "first", "first").stdout
    for command in (
        ("show", "first"),
        ("check", "first"),
    ):
        ended = evigraph(*command)
        assert ended.exit_code == 0 and "two" not in ended.stdout, (command, ended.exception)
    evigraph("runs", "tag", "last", "first")
    assert "2 runs have this tag: out/deep/two, out/one" in str(evigraph("show", "first").exception)
    evigraph("runs", "tag", "last", "first", "--remove")
    assert "out/one" in evigraph("show", "first").stdout


def test_every_answer_of_a_run_is_verified() -> None:
    found = json.loads(evigraph("verify", "out/deep/two", "--ranker", "bm25", "--json").stdout)
    assert (found["answers"], found["sentences"], found["without_answer"]) == (2, 4, [])
    assert (found["supported"], found["not_stated"]) == (0, 4)
    # Word scores are not probabilities, so they do not yield a rate of support.
    assert found["supported_rate"] is None
    shown = evigraph("verify", "out/deep/two", "--ranker", "bm25", "--rows", "1").stdout
    assert "2 answers with 4 sentences" in shown and "0 supported, 4 not stated" in shown
    assert evigraph("verify", "out/deep/two", "--html", "x.html").exit_code == 2


def verified(support: Support) -> Finding:
    return Finding(id="1", text="", support=support, sentence_ids=[], probability=None, faults=[])


def test_the_rate_counts_the_sentences_of_all_answers() -> None:
    one = [verified("supported"), verified("supported"), verified("not_stated")]
    answers = {"a": one, "b": [verified("not_stated")]}
    assert RunVerification(answers, by_probability=True).rate == 50
    assert RunVerification({}, ["a"], by_probability=True).rate is None


def test_a_note_is_text_and_nothing_else() -> None:
    evigraph("runs", "note", "last", "[red]warm\x1b[2J votes")
    assert "[red]warm\ufffd[2J votes" in evigraph("runs").stdout
    assert "nothing to do" in evigraph("runs", "note", "last", "[red]warm\x1b[2J votes").stdout


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("runs", "tag", "out/on", "x"), "out/on: no run here (run.json is missing); did you mean 'one'?"),
        (("runs", "--root", "none"), "none: no such folder"),
        (("show", "lst"), "lst: no run here"),
    ],
)
def test_what_is_no_run_is_named(arguments: tuple[str, ...], fault: str) -> None:
    assert fault in str(evigraph(*arguments).exception)


@pytest.mark.parametrize("tag", ["last", "a b", "-x", "../x"])
def test_a_tag_is_a_word(tag: str) -> None:
    assert evigraph("runs", "tag", "last", "--", tag).exit_code == 2


def test_there_is_no_last_run_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "`last` is undefined" in str(evigraph("show", "last").exception)
