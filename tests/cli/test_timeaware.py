"""Health questions from a corpus to verdicts and scores, as a user types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from retrieval.corpus.build import build
from runs.folder import RunFolder
from tests.evigraph import Ended, edit_manifest, evigraph

SAMPLES = Path(__file__).parents[2] / "cases" / "samples" / "health"
RECIPE = """\
system: timeaware
literature: {k: 20}
verdict: {explain: true}
"""


def run(folder: Path, *more: str | Path, model: str = "scripted:auto") -> Ended:
    questions = folder / "questions.jsonl"
    return evigraph("run", "timeaware", questions, "--model", model, *more, folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus `corpus` and a run `run` over the invented health questions."""
    folder = tmp_path_factory.mktemp("timeaware")
    build([SAMPLES / "literature.jsonl"], folder / "corpus")
    shutil.copy(SAMPLES / "questions.jsonl", folder / "questions.jsonl")
    (folder / "explained.yaml").write_text(RECIPE)
    ended = run(folder, "--recipe", "explained.yaml", "--corpus", "corpus", "--out", "run", "--json")
    assert ended.code == 0, ended.err
    return folder


def test_a_run_records_its_corpus_and_every_case_its_evidence(folder: Path) -> None:
    manifest = RunFolder(folder / "run").manifest
    assert set(manifest.resources) == {"corpus", "reader"}
    assert manifest.resources["corpus"]["documents"] == 24
    assert manifest.resources["reader"]["reader"] == "llm"
    assert set(manifest.prompts) >= {"read_passages", "explain_verdict"}
    lines = [line for line in RunFolder(folder / "run").cases() if line["evidence_passages"]]
    assert len(lines) >= 5
    assert all(one["text"] and one["year"] for line in lines for one in line["evidence_passages"])


def test_the_list_and_the_summary_show_verdicts_and_what_is_next(folder: Path) -> None:
    shown = evigraph("show", "run", folder=folder)
    heading, *rows = shown.out.splitlines()
    assert heading.split() == ["case", "status", "verdict", "readings", "notes"]
    lines = [line for line in RunFolder(folder / "run").cases() if line["verdict"]]
    tied = sum("tied_readings" in line["flags"] for line in lines)
    assert sum(" for, " in row for row in rows) == len(lines)
    assert sum("(a tie)" in row for row in rows if " for, " in row) == tied > 0
    (counted,) = [row.split(maxsplit=1)[1] for row in rows if row.startswith("verdict ")]
    assert sum(int(part.split()[0]) for part in counted.split(", ")) == len(lines)
    assert "evigraph score run" in shown.out


def test_without_a_corpus_one_line_says_what_to_type(folder: Path) -> None:
    ended = run(folder)
    assert ended.code == 2
    assert "searches a corpus; give its folder: --corpus FOLDER" in ended.line


def test_a_graph_that_searches_nothing_takes_no_corpus(folder: Path) -> None:
    arguments = ("questions.jsonl", "--model", "scripted:auto", "--corpus", "corpus")
    ended = evigraph("run", "weak_labels", *arguments, folder=folder)
    assert ended.code == 2
    assert "'weak_labels' uses no corpus; leave --corpus out" in ended.line


def test_a_reader_that_is_no_classifier_is_refused_before_anything_is_asked(folder: Path) -> None:
    ended = run(folder, "--corpus", "corpus", "--reader", "corpus")
    assert ended.code == 2
    assert "its folder has no config.json; use llm, or the folder of" in ended.line


def test_a_dry_run_counts_readings_and_explanations(folder: Path) -> None:
    ended = run(folder, "--recipe", "explained.yaml", "--corpus", "corpus", "--dry-run", "--json")
    roles = ended.summary["roles"]
    assert roles["label"]["calls"] > roles["answer"]["calls"] >= 5


def test_another_corpus_is_no_resume(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    first = (SAMPLES / "literature.jsonl").read_text("utf-8").splitlines()[:5]
    (tmp_path / "five.jsonl").write_text("\n".join(first))
    build([tmp_path / "five.jsonl"], tmp_path / "other")
    resources = RunFolder(tmp_path / "run").manifest.resources
    resources["corpus"]["folder"] = str(tmp_path / "other")
    edit_manifest(tmp_path / "run", resources=resources)
    ended = evigraph("resume", "run", folder=tmp_path)
    assert ended.code == 2
    assert "changed since this run began: corpus" in ended.line


def test_a_case_is_shown_with_its_evidence(folder: Path) -> None:
    ended = evigraph("show", "run", "h4", folder=folder, environment={"COLUMNS": "200"})
    assert "of 2013, after 2005" in ended.out
    assert "Stone and Kidney" in ended.out and "2002" in ended.out
    assert "as of" in ended.out and "verdict" in ended.out and "explained" in ended.out


def test_verdicts_are_scored_with_three_answers_and_with_two(folder: Path) -> None:
    scored = evigraph("score", "run", "--json", folder=folder).summary["verdicts"]
    assert [one["classes"] for one in scored] == [3, 2]
    assert set(scored[0]["values"]) == {"macro_precision", "macro_recall", "macro_f1", "accuracy"}
    assert scored[0]["scored_cases"] == 6 > scored[1]["scored_cases"]
    assert "verdict: yes or no" in evigraph("score", "run", folder=folder).out


def test_a_run_without_votes_on_sentences_is_not_analysed(folder: Path) -> None:
    ended = evigraph("analyse", "run", folder=folder)
    assert (ended.code, ended.line) == (2, "run: no case of this run is done and has votes")


def test_one_case_can_be_run_again_from_its_readings(folder: Path) -> None:
    ended = evigraph(
        *("rerun", "run", "h1", "--from", "aggregate_verdict", "--set", "verdict.classes=2", "--json"),
        folder=folder,
    )
    assert ended.code == 0, ended.err
    (line,) = RunFolder(next((folder / "run" / "forks").iterdir())).cases()
    assert line["verdict"] in ("yes", "no")
