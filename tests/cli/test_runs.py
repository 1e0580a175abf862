from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.looking.show_fork import summarise_fork
from cli.main import app
from evals.verification import RunVerification
from nodes.verification.support import Finding, Support
from runs.record.folder import CALLS, RunFolder
from runs.record.manifest import ForkedFrom
from tests.evigraph import edit_manifest, write_cases, write_recipe
from tests.viewer.case_runs import call, line, step, write_run
from tests.viewer.written_run import add, ended, failed, new_run


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
    assert evigraph("runs", "note", "last").stdout == "[red]warm\ufffd[2J votes\n"
    assert evigraph("runs", "note", "out/one").stdout == "out/one has no note\n"
    assert evigraph("runs", "note", "out/one", "x" * 2001).exit_code == 2
    assert "x" not in evigraph("runs", "note", "out/one").stdout


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


def test_a_folder_without_runs_has_an_empty_list(tmp_path: Path) -> None:
    assert evigraph("runs", "--root", str(tmp_path)).stdout == f"{tmp_path}: no run here or below\n"


def test_a_run_without_a_log_has_no_audit(tmp_path: Path) -> None:
    with new_run(tmp_path / "run", ["x"]):
        pass
    assert "audit" in str(evigraph("audit", str(tmp_path / "run")).exception)


def test_a_node_says_what_its_calls_took_and_which_are_gone(tmp_path: Path) -> None:
    asked = call(tmp_path / CALLS, "label", 0, "Which?", "this one")
    wide = {**asked, "cached_tokens": 4, "widened": True, "thinking_tokens": 1}
    steps = [
        step("label_evidence", calls=[wide, {**asked, "key": "0" * 64}], inherited=True),
        step("generate_answer"),
    ]
    texts = [{"id": str(number), "text": f"Sentence {number}."} for number in range(1001)]
    labels = {one["id"]: "not-essential" for one in texts} | {"3": "essential"}
    case = {"case_id": "c", "question": "Why?", "sentences": texts, "answer": "Known."}
    run = write_run(tmp_path, case, line("c", labels=labels, answer="A.", answer_evidence=["7"]), steps)
    (tmp_path / CALLS).rename(run / CALLS)
    shown = " ".join(evigraph("show", str(run), "c", "--calls").stdout.split())
    assert "0 label_evidence 0.5 s 2 calls, 20 tokens read, 4 of them cached, 4 written" in shown
    assert "(1 of them thinking), 1 with a wider limit inherited" in shown
    assert "this one" in shown and "(the journal has no such call: it was asked anew since)" in shown
    assert "Sentence 3." in shown and "Sentence 7." in shown and "Sentence 8." not in shown
    assert "(not shown: 999 sentences that nothing came of)" in shown
    assert "reference Known. time 1.0 s" in shown


def test_there_is_no_last_run_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "`last` is undefined" in str(evigraph("show", "last").exception)


def test_a_fork_is_told_with_what_it_changed_and_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ForkedFrom(run="run", case_id="x", node="label_evidence", step=1, changes={"seed": (1, 2)})
    with new_run(tmp_path / "run", ["x"]) as run:
        add(run, ended("x"))
    with new_run(tmp_path / "fork", ["x"], forked_from=made) as fork:
        add(fork, failed("x", "timeout"))
        fork.manifest.sessions[-1] = fork.manifest.sessions[-1].model_copy(update={"cost": 0.12345})
    summarise_fork(RunFolder(run.path), fork).print()
    printed = " ".join(capsys.readouterr().out.split())
    assert "cost 0.1235 failed timeout labels labelled in one of the two only" in printed
    assert printed.startswith(
        "fork case x from label_evidence, step 1 changed seed: 1 -> 2 steps 0 inherited, 4 new"
    )


def test_findings_that_are_not_listed_are_counted() -> None:
    Path("found.jsonl").write_text(
        json.dumps({"case_id": "s", "sentences": ["Mr. Doe called 555-123-4567."]})
    )
    scanned = evigraph("scan", "found.jsonl", "--rows", "1").stdout
    count = len(json.loads(evigraph("scan", "found.jsonl", "--json").stdout)["findings"])
    assert count > 1 and f"... and {count - 1} more: --rows {count} shows all" in scanned
    assert "shows all" not in evigraph("scan", "found.jsonl", "--rows", str(count)).stdout
