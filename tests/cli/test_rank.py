"""`evigraph rank`, as a user runs it. All texts are invented."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from cases.submissions.tasks import ARCHEHR
from cli.data.rank import _print
from evals.rankings.scores import RankingScores
from ranking.cutoffs import TopK
from tests.evigraph import evigraph, said, write_cases

SAMPLES = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))


def test_cases_with_a_key_are_scored_and_become_a_submission(tmp_path: Path) -> None:
    ended = evigraph(
        *("rank", "bm25", SAMPLES, "--out", "r.jsonl", "--submission", "s.zip", "--json"), folder=tmp_path
    )
    found = ended.summary
    assert (found["examples"], found["scored"], found["cutoff"]) == (12, 12, {"rule": "top_k", "k": 3})
    low, high = found["scores"]["micro_f1"]["interval"]
    assert low < found["scores"]["micro_f1"]["value"] < high
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert {row["id"]: row["selected"] for row in rows} == {
        one.case_id: list(one.evidence or ()) for one in ARCHEHR["2026-2"].read(tmp_path / "s.zip")
    }


def test_cases_without_labels_are_ranked(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 2)
    ended = evigraph("rank", "bm25", "cases.jsonl", "--cutoff", "top_k=1", folder=tmp_path)
    assert ended.code == 0
    assert "bm25, cut-off top_k=1: 2 examples, 2 of 12 sentences selected" in ended.out
    assert "no scores: no example is labelled by people" in ended.out


def test_what_cannot_be_a_submission_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text('{"id": "1", "query": "q", "sentences": ["a", "b"]}\n')
    ended = evigraph("rank", "bm25", "plain.jsonl", "--submission", "s.zip", folder=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "not a case of ArchEHR-QA" in ended.line


def test_every_cut_off_is_scored_in_one_table(tmp_path: Path) -> None:
    ended = evigraph("rank", "bm25", SAMPLES, "--by-cutoff", "--json", folder=tmp_path)
    found = {one["cutoff"]: one["scores"]["micro_f1"]["value"] for one in ended.summary["by_cutoff"]}
    assert len(found) == 15
    assert found["top_k=3"] == ended.summary["scores"]["micro_f1"]["value"]


def test_files_weak_labels_and_cut_texts_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    printed = said("rank", "bm25", SAMPLES, "--out", "r.jsonl", "--submission", "s.zip")
    assert printed.endswith(" r.jsonl s.zip") and "nothing saved" not in printed
    scores = RankingScores(2, 0, 2, {}, 1, 4, 1, 3)
    _print("bm25", TopK(k=1), scores, None, None)
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "over the ranker's limit of length, the end not read: 1 sentence and 3 queries",
        "weak labels are not scored against: 2 examples",
    ]
