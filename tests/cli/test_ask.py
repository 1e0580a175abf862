from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cases.records import Case, Sentence
from cli.main import app
from cli.running.print_answer import _answer_sentences, _mark, answer_result
from runs.record.folder import RunFolder
from storage.errors import InputError
from tests.evigraph import write_recipe
from tests.viewer.case_runs import line, write_run

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
    assert "not verified" in ended.stdout and "rests on" not in ended.stdout, "evidence is not its source"
    (run,) = folder.glob("out/*-ask/run")
    assert f"run: {run.relative_to(folder)}" in ended.stdout
    shown = CliRunner().invoke(app, ["show", str(run), "note"])
    assert "Why was vitamin K given?" in shown.stdout


def test_a_note_from_standard_input_as_one_object() -> None:
    ended = ask("Why?", "--out", "asked", "--json")
    answer = json.loads(ended.stdout)
    assert answer["answer"] and answer["status"] == "answered" and answer["run"] == "asked/run"
    assert answer["answer_sentences"] == [
        {"text": answer["answer"], "support": None, "probability": None, "sentence_ids": []}
    ]


VERIFIED = """\
system: tamu
embedding: lexical:256
evidence: {voters: ranker, ranker: bm25}
answer: {context: evidence, demonstrations: 0, min_sentences: 1}
answerability: token
verification: {check: model, rewrites: 0}
"""
SCRIPT = """\
import json

YES, NO = json.dumps({"Yes": 0.9, "No": 0.1}), json.dumps({"Yes": 0.1, "No": 0.9})

def reply(call):
    asked = call.prompt[-1][1]
    if call.format == "answer_stated":
        return NO if "creatinine" in asked else YES
    if call.role == "verify":
        return NO if 'Statement: "He sleeps' in asked else YES
    return "Dr. Patel advised reversal. He sleeps." if call.role == "answer" else "no"
"""


def ask_verified(folder: Path, *arguments: str, note: str = "-", typed: str = NOTE) -> Result:
    (folder / "verified.yaml").write_text(VERIFIED)
    (folder / "script.py").write_text(SCRIPT)
    given = ("--note", note, "--recipe", "verified.yaml", "--model", "scripted:script.py:reply")
    return CliRunner().invoke(app, ["ask", *arguments, *given], input=typed.encode())


def test_each_sentence_of_the_answer_has_its_sources_and_its_mark(folder: Path) -> None:
    ended = ask_verified(folder, "Why was vitamin K given?", "--out", "asked")
    assert ended.exit_code == 0, ended.exception
    lines = ended.stdout.splitlines()
    assert lines[lines.index("Dr. Patel advised reversal.") + 1] == "  supported by 2 (P(supported) 0.90)"
    assert lines[lines.index("He sleeps.") + 1].startswith("  NOT STATED in the note (P(supported) 0.00)")
    assert "rests on" not in ended.stdout
    again = CliRunner().invoke(app, ["resume", "asked/run", "--json"])
    answer = json.loads(again.stdout)
    assert answer["status"] == "unsupported"
    assert [one["support"] for one in answer["answer_sentences"]] == ["supported", "not_stated"]
    assert answer["answer_sentences"][0]["sentence_ids"] == ["2"]


def test_a_note_that_does_not_say_is_said_to_with_the_nearest_sentences(folder: Path) -> None:
    ended = ask_verified(folder, "What was the creatinine after the fall?", "--out", "asked")
    assert ended.stdout.startswith("The note does not say.\n\nnearest sentences:\n")
    assert "rests on" not in ended.stdout
    answer = json.loads(CliRunner().invoke(app, ["resume", "asked/run", "--json"]).stdout)
    assert answer["status"] == "not_stated" and answer["answer_sentences"] == []
    assert answer["nearest_sentences"] == [one["id"] for one in answer["sentences"]]


def test_a_question_that_was_interrupted_is_answered_by_resume(folder: Path) -> None:
    stopped = ask_verified(folder, "Why was vitamin K given?", "--out", "asked", "--max-tokens-total", "1")
    assert stopped.exit_code == 1 and "Dr. Patel advised" not in stopped.stdout
    ended = CliRunner().invoke(app, ["resume", "asked/run", "--max-tokens-total", "100000"])
    assert ended.exit_code == 0, ended.exception
    assert ended.stdout.startswith("Dr. Patel advised reversal.\n  supported by 2")


def test_a_dry_run_counts_and_leaves_nothing(folder: Path) -> None:
    ended = ask_verified(folder, "Why?", "--dry-run", "--json")
    counted = json.loads(ended.stdout)
    assert counted["dry_run"] and counted["roles"]["answer"]["calls"] == 1
    assert not (folder / "out").exists()


@pytest.mark.parametrize(("sentences", "said"), [(500, False), (501, True)])
def test_a_long_note_is_announced_and_without_a_terminal_not_asked_about(
    folder: Path, sentences: int, said: bool
) -> None:
    note = "".join(f"Dose {number} was given.\n" for number in range(sentences))
    ended = ask_verified(folder, "Why was vitamin K given?", typed=note)
    assert ended.exit_code == 0, ended.exception
    assert ("The note has 501 sentences; the answer takes about" in ended.stderr) is said


@pytest.mark.parametrize(
    ("arguments", "typed", "fault"),
    [
        (("Why?",), b"", "standard input: its note is empty"),
        (("Why?",), b"a\nb\xe9", "standard input: line 2: not UTF-8"),
        (("Why?", "--out", "."), b"One.", ".: is there already"),
        (("Why", "was", "it?"), b"One.", 'Put the question in quotes: evigraph ask "Why was it?" --note -'),
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


def test_a_sentence_that_shares_no_word_with_the_note_is_not_shown_as_if_it_had_evidence() -> None:
    mark = {"support": "supported", "sentence_ids": [], "probability": 0.77}
    assert _mark(mark) == "supported, but no sentence shares a word with it (P(supported) 0.77)"
    assert _mark(mark | {"sentence_ids": ["2", "3"]}) == "supported by 2, 3 (P(supported) 0.77)"


def test_sentences_of_an_aligned_answer_have_the_sentences_that_they_rest_on() -> None:
    aligned = line(
        "note",
        answer="He fell. It was cold.",
        answer_sentences=[{"id": "1", "text": "He fell."}, {"id": "2", "text": "It was cold."}],
        alignment={"1": ["3"]},
        aligned_answer="generated",
    )
    found = _answer_sentences(aligned)
    assert [(one["text"], one["sentence_ids"]) for one in found] == [
        ("He fell.", ["3"]),
        ("It was cold.", []),
    ]
    of_clinician = _answer_sentences(aligned | {"aligned_answer": "clinician"})
    assert [(one["text"], one["sentence_ids"]) for one in of_clinician] == [("He fell. It was cold.", [])]


SUPPORTED: dict[str, Any] = {
    "text": "A.",
    "support": "supported",
    "probability": None,
    "sentence_ids": [str(number) for number in range(1, 23)],
}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"error": {"class": "timeout", "message": "late"}, "status": "failed"},
            "failed: timeout: late run: RUN next: evigraph retry RUN",
        ),
        (
            {"flags": ["no_answer", "fell_back"]},
            "no answer: no answer, fell back run: RUN next: evigraph show RUN note",
        ),
        ({}, "no answer run: RUN next: evigraph show RUN note"),
        (
            {"answer_support": [SUPPORTED], "answer": "A."},
            "A. supported by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22",
        ),
    ],
    ids=["failed", "flags", "nothing", "many sentences"],
)
def test_what_there_is_instead_of_an_answer_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], told: str
) -> None:
    sentences = tuple(Sentence(str(number), f"Fact {number}.") for number in range(1, 31))
    run = RunFolder(write_run(folder, {"case_id": "note", "sentences": ["A."]}, line("note")))
    answer_result(Case("note", "", "Why?", sentences), run, line("note", **fields)).show()
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(told.replace("RUN", str(run.path)))
    if "answer" in fields:
        assert "rests on 22 of 30 sentences" in printed and "Fact 20. ... and 2 more" in printed
        twenty = SUPPORTED | {"sentence_ids": SUPPORTED["sentence_ids"][:20]}
        short = line("note", answer="A.", answer_support=[twenty])
        answer_result(Case("note", "", "Why?", sentences), run, short).show()
        assert "more" not in capsys.readouterr().out
