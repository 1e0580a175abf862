"""Runs with an interpreted question and an aligned answer: their lines, their failures, their old folders."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from runs import RunFolder
from runs.record.trace_file import TraceFile
from tests.evigraph import Ended, edit_manifest, evigraph, write_cases, write_recipe

BATCH = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))
SUBTASKS = """\
question: {interpret: always, demonstrations: 1}
alignment: {answer: WHOSE, demonstrations: 1}
"""
QUESTION_ALONE = """\
stop_after: question
question: {interpret: always}
"""
BREAKS_ALIGNMENT = """\
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

def reply(call):
    if call.format == "alignment" and call.case_id == "102" and Path("broken").exists():
        raise CallError("timeout", "no links in time")
    return made_up_reply(call)
"""


def run(folder: Path, aligned: str, *more: str, cases: Path = BATCH, model: str = "scripted:auto") -> Ended:
    recipe = write_recipe(folder)
    recipe.write_text(recipe.read_text() + SUBTASKS.replace("WHOSE", aligned))
    return evigraph(
        *("run", "tamu", cases, "--recipe", recipe, "--model", model, "--out", "run", "--json"),
        *("--max-retries", "0", *more),
        folder=folder,
    )


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    return {line["case_id"]: line for line in RunFolder(folder / "run").cases()}


def test_cases_without_a_clinicians_answer_are_done_without_an_alignment(tmp_path: Path) -> None:
    ended = run(tmp_path, "clinician", cases=write_cases(tmp_path / "cases.jsonl", 2))
    assert (ended.code, ended.summary["done"]) == (0, 2)
    line = lines(tmp_path)["k0"]
    assert line["alignment"] is line["answer_sentences"] is line["aligned_answer"] is None
    assert line["flags"] == ["no_clinician_answer"]
    assert line["answer"]


def test_a_failed_alignment_keeps_the_answer_and_retry_asks_for_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BREAKS_ALIGNMENT)
    (tmp_path / "broken").touch()
    first = run(tmp_path, "generated", "--limit", "3", model="scripted:script.py:reply")
    assert (first.code, first.summary["errors"]) == (1, {"timeout": 1})
    failed = lines(tmp_path)["102"]
    assert (failed["status"], failed["alignment"]) == ("failed", None)
    (tmp_path / "broken").unlink()
    second = evigraph("retry", "run", "--json", folder=tmp_path)
    assert (second.code, second.summary["done"], second.summary["last_session"]["calls"]) == (0, 3, 1)
    assert lines(tmp_path)["102"]["answer"] == failed["answer"] != ""


def question_alone(folder: Path, cases: Path, *more: str) -> Ended:
    recipe = write_recipe(folder)
    recipe.write_text("system: tamu\nembedding: lexical:256\n" + QUESTION_ALONE)
    command = ("run", "tamu", cases, "--recipe", recipe, "--model", "scripted:auto", "--out", "run", "--json")
    return evigraph(*command, *more, folder=folder)


def test_messages_without_notes_get_their_questions_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "messages.xml"
    path.write_text(
        "<annotations><case id='1'><patient_narrative>I fell. Will my wrist heal?</patient_narrative></case>"
        "<case id='2'/></annotations>"
    )
    ended = question_alone(tmp_path, path)
    assert (ended.code, ended.summary["calls"]) == (1, 1)
    assert ended.summary["errors"] == {"invalid_input": 1}
    assert lines(tmp_path)["1"]["interpreted_question"]
    assert evigraph("show", "run", "1", folder=tmp_path).code == 0


def test_a_run_without_votes_is_not_scored_as_empty(tmp_path: Path) -> None:
    ended = question_alone(tmp_path, BATCH, "--limit", "1")
    assert (ended.code, ended.summary["calls"]) == (0, 1)
    assert ended.summary["evidence_scores"] is None


def old_run(folder: Path) -> None:
    """A run folder as it was written before recipes had questions and alignments; its last case is gone."""
    recipe = write_recipe(folder)
    command = ("run", "tamu", BATCH, "--limit", "2", "--recipe", recipe, "--model", "scripted:auto")
    assert evigraph(*command, "--out", "run", folder=folder).code == 0
    path = folder / "run"
    kept, _ = [lines[0]["case_id"] for lines in TraceFile(path).passes()]
    recorded = RunFolder(path).manifest.recipe
    for section in ("question", "alignment"):
        del recorded[section]
    old = {"recipe": recorded, "recipe_sha256": "0" * 64, "counts": {}, "sealed": False}
    edit_manifest(path, **old, status="interrupted")
    (line,) = [line for line in RunFolder(path).cases() if line["case_id"] == kept]
    (path / "cases.jsonl").write_text(json.dumps(line) + "\n")


def test_a_run_of_before_there_were_alignments_is_resumed(tmp_path: Path) -> None:
    old_run(tmp_path)
    ended = evigraph("resume", "run", "--json", folder=tmp_path)
    assert (ended.code, ended.summary["done"]) == (0, 2), ended.err
    # All its calls are in the journal: prompts and their parameters are as they were.
    assert ended.summary["last_session"]["calls"] == 0
