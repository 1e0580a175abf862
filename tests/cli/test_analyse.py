from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cases.records import INTENTS
from cli.measuring.print_analysis import print_analysis
from cli.terminal import print_table
from evals.analysis.render import score_table
from evals.analysis.report import Analysis
from evals.analysis.sweep import EvidenceScores
from evals.scoring.score import weak_note
from ranking.measures import PrecisionRecallF1
from tests.evals.scoring.submissions import CASES, KEY
from tests.evigraph import Ended, evigraph, write_cases, write_recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on the sample cases, on others of the samples, and on cases without a key."""
    folder = tmp_path_factory.mktemp("analyse")
    write_recipe(folder)
    write_cases(folder / "plain.jsonl", 2)
    pool = CASES.with_name("pool.xml")
    for name, cases in (("run", CASES), ("other", pool), ("plain", folder / "plain.jsonl")):
        arguments = ["--model", "scripted:auto", "--recipe", "lexical.yaml", "--limit", "4", "--out", name]
        ended = evigraph("run", "tamu", str(cases), *arguments, folder=folder)
        assert ended.code == 0, ended.err
    return folder


def analyse(folder: Path, *arguments: str) -> Ended:
    return evigraph("analyse", *arguments, folder=folder)


def test_every_threshold_has_its_scores(folder: Path) -> None:
    found = analyse(folder, "run", "--json").summary
    names = [entry["name"] for entry in found["by_threshold"]]
    assert names == [f"T = {number}" for number in range(1, found["votes"] + 1)]
    own = found["by_threshold"][found["threshold"] - 1]["strict_micro"]
    assert own == found["by_setting"][0]["strict_micro"]
    scored = evigraph("score", "run", "--task", "2026-2", "--json", folder=folder).summary["tasks"][0]
    assert own == {part: pytest.approx(scored["values"][f"strict_micro_{part}"]) for part in own}
    assert len(own) == 3 and own["f1"] > 1
    assert found["agreement"]["pairwise"] > 1


def test_reflection_leads_to_the_labels_of_the_run(folder: Path) -> None:
    found = analyse(folder, "run", "--json").summary
    assert found["reflection"]["after"]["strict_micro"] == found["by_setting"][0]["strict_micro"]
    assert found["reflection"]["votes"] == 4 * found["votes"]


def test_no_model_is_called(folder: Path) -> None:
    before = (folder / "run" / "calls.sqlite").read_bytes()
    assert analyse(folder, "run").code == 0
    assert (folder / "run" / "calls.sqlite").read_bytes() == before


def test_a_threshold_of_another_run(folder: Path) -> None:
    found = analyse(folder, "run", "--tune-on", "other", "--json").summary["tuned"]
    assert found["tuned_on"] == "other"
    assert sum(found["thresholds"].values()) == 4


def test_a_threshold_is_never_tuned_on_the_cases_it_is_reported_on(folder: Path) -> None:
    ended = analyse(folder, "run", "--tune-on", "run")
    assert ended.code == 2
    assert "has 4 cases of this run (such as '101'); tune on others" in ended.line


def test_without_a_key_agreement_remains(folder: Path) -> None:
    ended = analyse(folder, "plain")
    assert ended.code == 0
    assert "Krippendorff's alpha" in ended.out
    assert "give one: --key KEY" in ended.out


def test_the_page_holds_no_script_and_nothing_from_elsewhere(folder: Path) -> None:
    ended = analyse(folder, "run", "--html", "votes.html")
    page = (folder / "votes.html").read_text("utf-8")
    assert "page  votes.html" in ended.out
    assert page.count("<svg") == 1
    assert '<th scope="row">sentences</th>' in page
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org/", "")


def test_hostile_names_stay_text(folder: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<b>run"
    shutil.copytree(folder / "run", hostile)
    evigraph("analyse", str(hostile), "--html", str(tmp_path / "page.html"), folder=folder)
    assert "<b>run" not in (tmp_path / "page.html").read_text("utf-8")


def test_key_files_may_be_given(folder: Path, tmp_path: Path) -> None:
    entries = json.loads(KEY.read_text("utf-8"))[:2]
    (tmp_path / "part.json").write_text(json.dumps(entries))
    found = analyse(folder, "run", "--key", str(tmp_path / "part.json"), "--json").summary
    assert found["labelled_cases"] == 2


def test_no_name_of_an_intent_is_broken_on_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    best = PrecisionRecallF1(1, 1, 1)
    rows = [EvidenceScores(name, 1000, 99_999, best, best, best) for name in INTENTS]
    print_table(score_table(rows))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(INTENTS)
    assert all(len(line.split()) == 8 for line in lines[1:])
    assert max(map(len, lines)) <= 80


def test_weak_labels_and_a_missing_key_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = Analysis("run", 3, 2, 2, 3, True, [], [], None, None, None, [], None, weak_cases=1)
    print_analysis(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("run: 3 cases with votes, 2 of them in a key")
    assert weak_note(1, 2) in printed and printed.endswith("give one: --key KEY")
    print_analysis(replace(found, weak_cases=0))
    assert weak_note(1, 2) not in " ".join(capsys.readouterr().out.split())
