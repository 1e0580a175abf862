"""From clinicians' answers to weak labels, to a key, to a pool, to a run that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases.records import Intent
from retrieval.embeddings import connect_embedder
from retrieval.pools.pool import DemonstrationPool
from runs.record.folder import RunFolder
from tests.evigraph import LEXICAL_RECIPE, Ended, evigraph, said, write_cases, write_recipe

LEXICAL = ("--embedding", "lexical:256")
ANSWER = "Procedure was done for ${sentences}. [bold]It[/bold] helped."


def case(case_id: str, **more: object) -> dict[str, Any]:
    return {
        "case_id": case_id,
        "question": f"Why was procedure {case_id} done?",
        "sentences": ["Stable.", f"Procedure {case_id} was done."],
        **more,
    }


CASES = (
    case("w1", answer=ANSWER),
    case("w2", answer=ANSWER),
    case("none"),
    case("people", answer=ANSWER, labels={"1": "essential", "2": "not-relevant"}),
)


def label_run(folder: Path, *arguments: str) -> Ended:
    return evigraph("run", "weak_labels", *arguments, "--model", "scripted:replies.jsonl", folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run `run` of weak_labels with its key `weak.json` and its pool `pool`."""
    folder = tmp_path_factory.mktemp("weak")
    (folder / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in CASES))
    reply = {"role": "label", "reply": {"1": "not-essential", "2": "essential"}}
    (folder / "replies.jsonl").write_text(json.dumps(reply))
    assert label_run(folder, "cases.jsonl", "--out", "run").code == 1
    assert evigraph("demos", "label", "run", "--to", "weak.json", folder=folder).code == 0
    built = evigraph(
        *("demos", "build", "cases.jsonl", "--key", "weak.json", "--to", "pool", *LEXICAL), folder=folder
    )
    assert built.code == 0, built.err
    return folder


def lines(folder: Path, run: str) -> dict[str, dict[str, Any]]:
    return {line["case_id"]: line for line in RunFolder(folder / run).cases()}


def test_the_trace_of_a_run_says_which_demonstrations_are_weak(folder: Path) -> None:
    (folder / "three.yaml").write_text(LEXICAL_RECIPE.replace("demonstrations: 1", "demonstrations: 3"))
    write_cases(folder / "new.jsonl", 1)
    ended = evigraph(
        *("run", "tamu", "new.jsonl", "--demos", "pool", "--recipe", "three.yaml"),
        *("--model", "scripted:auto", "--out", "shown"),
        folder=folder,
    )
    assert ended.code == 0, ended.err
    chosen = {
        one["case_id"]: one["source"]
        for step in RunFolder(folder / "shown").trace("k0")
        if step["node"].startswith("retrieve")
        for one in step["facts"]["chosen"]
    }
    assert chosen == {"people": "gold", "w1": "weak", "w2": "weak"}
    assert "label_source" not in lines(folder, "shown")["k0"]


def test_a_summary_says_that_its_key_is_weak(folder: Path) -> None:
    write_recipe(folder)
    run = ("run", "tamu", "cases.jsonl", "--key", "weak.json", "--recipe", "lexical.yaml")
    arguments = (*run, "--model", "scripted:auto", "--demos", "pool")
    said = evigraph(*arguments, "--out", "scored", folder=folder).out
    assert "the key of 3 cases (2 of them with weak labels, so no gold score)" in " ".join(said.split())
    scores = evigraph(*arguments, "--out", "json", "--json", folder=folder).summary["evidence_scores"]
    assert (scores["scored_cases"], scores["weak_cases"]) == (3, 2)


def test_a_case_that_people_labelled_is_not_scored_as_empty(folder: Path) -> None:
    summary = label_run(folder, "cases.jsonl", "--out", "again", "--json").summary
    assert summary["evidence_scores"] is None


def test_show_marks_the_labels_of_citations(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(json.dumps(case("c")))
    key = {"case_id": "c", "clinician_answer_sentences": [{"id": "1", "text": "So.", "citations": "2"}]}
    (tmp_path / "key.json").write_text(json.dumps([key]))
    arguments = ("cases.jsonl", "--key", "key.json", "--model", "scripted:auto", "--out", "run")
    assert evigraph("run", "weak_labels", *arguments, folder=tmp_path).code == 0
    shown = evigraph("show", "run", "c", folder=tmp_path).out
    assert "the clinician's answer cites 1 of 2 sentences; weak labels" in shown
    assert " 2  -      essential" in shown


def test_an_intent_that_a_model_does_not_find_is_counted(tmp_path: Path) -> None:
    labelled = [case(id_, labels={"1": "essential", "2": "not-relevant"}) for id_ in ("a", "b")]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labelled))
    found = {"primary": "prognosis_severity", "secondary": "none", "risk_level": "high"}
    replies = [{"role": "classify", "case": "a", "reply": found}, {"role": "classify", "reply": "no form"}]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
    ended = evigraph(
        *("demos", "build", "pool.jsonl", "--to", "pool", *LEXICAL, "--model", "scripted:replies.jsonl"),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    assert "2 demonstrations (1 without an intent) in pool" in ended.out
    assert "classifying the intents of 2 cases" in ended.err
    pool = DemonstrationPool(tmp_path / "pool", connect_embedder("lexical:256"))
    assert pool.case("a").gold.intent == Intent("prognosis_severity", None, "high")
    assert pool.case("b").gold.intent is None


def test_a_run_of_another_system_has_no_weak_labels(folder: Path, tmp_path: Path) -> None:
    write_recipe(tmp_path)
    write_cases(tmp_path / "cases.jsonl", 1)
    run = (
        "run",
        "tamu",
        "cases.jsonl",
        "--recipe",
        "lexical.yaml",
        "--model",
        "scripted:auto",
        "--out",
        "run",
    )
    assert evigraph(*run, folder=tmp_path).code == 0
    ended = evigraph("demos", "label", "run", "--to", "weak.json", folder=tmp_path)
    assert ended.code == 2
    assert "a run of 'tamu' has no weak labels; make some: evigraph run weak_labels" in ended.line


def test_a_key_of_people_is_not_written_over(folder: Path) -> None:
    by_people = json.dumps([{"case_id": "w1", "answers": [{"sentence_id": "1", "relevance": "essential"}]}])
    (folder / "people.json").write_text(by_people)
    ended = evigraph("demos", "label", "run", "--to", "people.json", folder=folder)
    assert ended.code == 2
    assert "people.json: exists, and holds more than weak labels" in ended.line
    assert (folder / "people.json").read_text() == by_people
    (folder / "letter.json").write_text("Dear Ann")
    ended = evigraph("demos", "label", "run", "--to", "letter.json", folder=folder)
    assert ended.code == 2 and "letter.json: exists, and holds more" in ended.line


@pytest.mark.parametrize(
    ("one", "reason"), [("people", "no case was without labels of people"), ("none", "1 case failed")]
)
def test_a_run_that_has_labelled_nothing_says_why(folder: Path, one: str, reason: str) -> None:
    label_run(folder, "cases.jsonl", "--case-ids", one, "--out", f"of-{one}")
    ended = evigraph("demos", "label", f"of-{one}", "--to", "nothing.json", folder=folder)
    assert ended.code == 2 and f"no weak labels in this run: {reason}; see: evigraph show" in ended.line


def test_a_key_of_weak_labels_is_written_anew(folder: Path) -> None:
    (folder / "older.json").write_text("[]")
    assert evigraph("demos", "label", "run", "--to", "older.json", folder=folder).code == 0
    assert evigraph("demos", "label", "run", "--to", "older.json", folder=folder).code == 0
    assert (folder / "older.json").read_bytes() == (folder / "weak.json").read_bytes()


def test_labels_of_a_note_that_has_changed_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(case("w", answer=ANSWER)))
    arguments = ("cases.jsonl", "--model", "scripted:auto", "--out", "run")
    assert evigraph("run", "weak_labels", *arguments, folder=tmp_path).code == 0
    path.write_text(json.dumps(case("w", answer=ANSWER, labels={"1": "essential"})))
    ended = evigraph("demos", "label", "run", "--to", "weak.json", folder=tmp_path)
    assert ended.code == 2
    assert "its case files or keys have changed since" in ended.line
    assert not (tmp_path / "weak.json").exists()


def test_a_run_that_was_shown_the_answers_has_no_official_score(folder: Path) -> None:
    gold = [{"case_id": "w1", "answers": [{"sentence_id": "2", "relevance": "essential"}]}]
    (folder / "gold.json").write_text(json.dumps(gold))
    scored = evigraph("score", "run", "--key", "gold.json", "--json", folder=folder).summary
    task = next(one for one in scored["tasks"] if one["task"] == "2026-2")
    assert task["values"]["strict_micro_recall"] == 100
    assert "overall_score" not in task["values"]
    assert "shown the clinicians' answers" in task["notes"][-1]


def test_a_key_names_cases_without_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    lines = "".join(json.dumps(case(f"w{number}", answer=ANSWER)) + "\n" for number in range(2))
    (tmp_path / "cases.jsonl").write_text(lines)
    reply = {"role": "label", "reply": {"1": "not-essential", "2": "not-essential"}}
    (tmp_path / "replies.jsonl").write_text(json.dumps(reply))
    said("run", "weak_labels", "cases.jsonl", "--model", "scripted:replies.jsonl", "--out", "run")
    assert "without an essential sentence: w0, w1" in said("demos", "label", "run", "--to", "weak.json")
