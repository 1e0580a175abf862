from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cases.submissions.archehr import Task
from cli.main import app
from tests.evals.scoring.submissions import CASES, KEY, write, write_invalid
from tests.evigraph import Ended, evigraph

TASKS: tuple[Task, ...] = ("2025", "2026-1", "2026-2", "2026-3", "2026-4")


def scored(folder: Path, file: Path, task: Task, *more: str) -> Ended:
    against = ["--key", str(KEY), "--cases", str(CASES)]
    return evigraph("score", str(file), "--task", task, *against, *more, folder=folder)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("2025", {"strict_micro_f1": 100, "strict_macro_f1": 100, "overall_factuality_score": 100}),
        ("2026-1", {"rouge1": 100, "rouge2": 100, "rougeL": 100, "rougeLsum": 100}),
        ("2026-2", {"strict_micro_f1": 100, "lenient_macro_f1": 100, "overall_score": 100}),
        ("2026-3", {"bleu": 100, "rouge1": 100, "rougeLsum": 100}),
        ("2026-4", {"micro_f1": 100, "macro_f1": 100, "overall_score": 100}),
    ],
)
def test_a_perfect_submission(task: Task, expected: dict[str, float], tmp_path: Path) -> None:
    file = write(tmp_path / "perfect.zip", task, "perfect")
    (found,) = scored(tmp_path, file, task, "--json").summary["tasks"]
    assert {name: found["values"][name] for name in expected} == pytest.approx(expected)
    assert ("overall_score" in found["values"]) == (task in ("2026-2", "2026-4"))


@pytest.mark.parametrize("task", ["2026-2", "2026-4"])
def test_an_empty_submission_scores_nothing(task: Task, tmp_path: Path) -> None:
    file = write(tmp_path / "empty.json", task, "empty")
    (found,) = scored(tmp_path, file, task, "--json").summary["tasks"]
    assert found["values"]["overall_score"] == 0
    assert set(found["values"].values()) == {0}


@pytest.mark.parametrize(("task", "prefix"), [("2025", "strict_"), ("2026-2", "strict_"), ("2026-4", "")])
def test_citing_everything_has_all_recall(task: Task, prefix: str, tmp_path: Path) -> None:
    file = write(tmp_path / "all.zip", task, "over_citing")
    (found,) = scored(tmp_path, file, task, "--json").summary["tasks"]
    assert found["values"][f"{prefix}micro_recall"] == 100
    assert 0 < found["values"][f"{prefix}micro_precision"] < 40


@pytest.mark.parametrize("task", TASKS)
def test_what_the_official_scorer_refuses_is_one_line(task: Task, tmp_path: Path) -> None:
    file = write_invalid(tmp_path / "invalid.json", task)
    ended = scored(tmp_path, file, task)
    assert ended.code == 2
    assert "case '101'" in ended.line or "101" in ended.line
    checked = evigraph("validate", str(file), "--task", task, "--key", str(KEY), folder=tmp_path)
    assert checked.code == 1
    assert "refused" in checked.out


def test_what_is_not_computed_says_what_it_needs(tmp_path: Path) -> None:
    file = write(tmp_path / "perfect.zip", "2026-3", "perfect")
    said = " ".join(scored(tmp_path, file, "2026-3").out.split())
    assert "bertscore - not computed: needs --bertscore-model DIR" in said
    assert "medcon - not computed: needs --quickumls DIR (a UMLS licence)" in said
    assert "mean_of_available" in said and "(bleu, rougeLsum, sari); no overall_score" in said


def test_terms_of_the_user_give_a_variant_with_a_name_of_its_own(tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("cholecystitis\tC1\naspirin\tC2\n")
    file = write(tmp_path / "perfect.zip", "2026-3", "perfect")
    (found,) = scored(tmp_path, file, "2026-3", "--concepts", str(terms), "--json").summary["tasks"]
    assert found["extra"]["medcon_own_terms"] > 0
    assert "medcon" in found["not_computed"] and "medcon" not in found["values"]


def test_without_the_task_it_is_told_from_the_form(tmp_path: Path) -> None:
    file = write(tmp_path / "perfect.zip", "2026-4", "perfect")
    ended = evigraph("score", str(file), "--key", str(KEY), "--json", folder=tmp_path)
    assert ended.summary["tasks"][0]["task"] == "2026-4"
    text = write(tmp_path / "text.zip", "2026-3", "perfect")
    ended = evigraph("score", str(text), "--key", str(KEY), folder=tmp_path)
    assert ended.code == 2
    assert "--task" in ended.line


def test_a_part_of_the_cases(tmp_path: Path) -> None:
    file = write(tmp_path / "perfect.zip", "2026-2", "perfect")
    (found,) = scored(tmp_path, file, "2026-2", "--case-ids", "101-103 105", "--json").summary["tasks"]
    assert found["scored_cases"] == 4


def test_missing_and_foreign_cases_are_refused_as_the_official_scorer_does(tmp_path: Path) -> None:
    file = write(tmp_path / "perfect.json", "2026-2", "perfect")
    entries = json.loads(file.read_text())
    entries[0]["case_id"] = "999"
    file.write_text(json.dumps(entries))
    ended = scored(tmp_path, file, "2026-2")
    assert ended.code == 2
    assert "missing of the key: 1 case (such as '101')" in ended.line
    assert "not in the key: 1 case (such as '999')" in ended.line


def test_a_submission_without_a_key(tmp_path: Path) -> None:
    file = write(tmp_path / "perfect.zip", "2026-2", "perfect")
    ended = evigraph("score", str(file), folder=tmp_path)
    assert ended.code == 2
    assert "--key" in ended.err


def test_subtask_1_is_scored_against_the_xml_given_as_the_key(tmp_path: Path) -> None:
    file = write(tmp_path / "questions.zip", "2026-1", "perfect")
    ended = evigraph("score", str(file), "--task", "2026-1", "--key", str(CASES), "--json", folder=tmp_path)
    assert ended.summary["tasks"][0]["values"]["rougeLsum"] == pytest.approx(100)
    checked = evigraph("validate", str(file), "--task", "2026-1", "--key", str(CASES), folder=tmp_path)
    assert checked.code == 0


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    ended = evigraph("score", "nowhere", folder=tmp_path)
    assert (ended.code, ended.line) == (2, "nowhere: no such run folder or submission")
    file = write(tmp_path / "perfect.zip", "2026-2", "perfect")
    ended = scored(tmp_path, file, "2026-2", "--case-ids", "900")
    assert ended.code == 2
    assert "none of '900' is among the 12 cases of the key" in ended.line


@pytest.mark.parametrize(
    ("bounds", "code", "line"),
    [
        (["strict_micro_f1=99.9", "overall_score=100"], 0, ""),
        (["strict_micro_f1=100.1"], 1, "--fail-under strict_micro_f1=100.1: it is 100.00"),
        (["strict_micro_f=1"], 1, "no such value; did you mean 'strict_micro_f1'?"),
        (["strict_micro_f1=nan"], 1, "it is 100.00"),
        (["strict_micro_f1=x"], 2, "'x' is not a number"),
    ],
)
def test_a_score_below_a_bound_or_missing_fails(
    bounds: list[str], code: int, line: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "perfect.zip", "2026-2", "perfect")
    given = [word for bound in bounds for word in ("--fail-under", bound)]
    command = ["score", str(file), "--task", "2026-2", "--key", str(KEY), "--cases", str(CASES), *given]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == code
    assert line in " ".join(ended.stderr.replace("\u2502", " ").split())


def test_the_worst_cases_and_what_was_not_predicted_are_printed(tmp_path: Path) -> None:
    file = write(tmp_path / "all.zip", "2026-2", "over_citing")
    shown = scored(tmp_path, file, "2026-2", "--worst-first").out
    (worst,) = [line for line in shown.splitlines() if line.startswith("  worst by ")]
    values = [float(one.split()[-1]) for one in worst.partition(": ")[2].split(", ")]
    assert values == sorted(values) and len(values) > 1
    assert "worst by" not in scored(tmp_path, file, "2026-2").out
