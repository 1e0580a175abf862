"""Health questions from a corpus to verdicts and scores, as a user types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.looking.show_verdict import print_evidence, verdict_rows
from retrieval.corpus.build import build
from runs.record.folder import RunFolder
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


def test_a_graph_that_searches_nothing_takes_no_corpus(folder: Path) -> None:
    arguments = ("questions.jsonl", "--model", "scripted:auto", "--corpus", "corpus")
    ended = evigraph("run", "weak_labels", *arguments, folder=folder)
    assert ended.code == 2
    assert "'weak_labels' uses no corpus; leave --corpus out" in ended.line


def test_a_reader_that_is_no_classifier_is_refused_before_anything_is_asked(folder: Path) -> None:
    ended = run(folder, "--corpus", "corpus", "--reader", "corpus")
    assert ended.code == 2
    assert "its folder has no config.json; use llm, or the folder of" in ended.line


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


def test_passages_have_their_probability_and_a_verdict_its_explanation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    passage = {"id": "P1", "year": 2001, "citations": None, "reading": "supports", "probability": 0.5}
    unread = {**passage, "id": "P2", "reading": None, "probability": None}
    texts = {"source": "A Journal", "document": "L1", "text": "It helps."}
    print_evidence({"evidence_passages": [passage | texts, unread | texts]})
    printed = " ".join(capsys.readouterr().out.split())
    assert "reading P source passage P1 2001 - supports 0.50 A Journal L1 It helps." in printed
    assert "P2 2001 - not read - A Journal" in printed
    line = {
        "reading_counts": {"supports": 2, "neutral": 0, "refutes": 1, "missing": 0},
        "disagreement": {"entropy": None},
        "verdict": "yes",
        "flags": [],
    }
    assert [name for name, _ in verdict_rows(line)] == ["verdict", "readings"]
    explained = dict(verdict_rows(line | {"explanation": "Two say so."}))
    assert explained["explained"].plain == "Two say so."
