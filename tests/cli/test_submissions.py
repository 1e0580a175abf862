"""`evigraph submit` and `evigraph validate`, as a user runs them."""

from __future__ import annotations

import json
import zipfile
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest

from cases.submissions.archehr import Task
from cases.submissions.bioasq import BioasqTask
from cases.submissions.tasks import ARCHEHR
from cli.options import TaskName
from tests.evals.scoring.runs import done, failed, make_run
from tests.evigraph import evigraph, write_recipe

SAMPLES = Path(str(resources.files("cases").joinpath("samples")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run `run` of all sample cases."""
    folder = tmp_path_factory.mktemp("submissions")
    write_recipe(folder)
    ended = evigraph(
        *("run", "tamu", SAMPLES / "batch.xml", "--model", "scripted:auto"),
        *("--recipe", "lexical.yaml", "--out", "run"),
        folder=folder,
    )
    assert ended.code == 0
    return folder


def write(path: Path, *entries: object) -> Path:
    path.write_text(json.dumps(entries), "utf-8")
    return path


def test_the_command_line_names_every_task() -> None:
    assert get_args(TaskName) == get_args(Task) + get_args(BioasqTask)


@pytest.mark.parametrize("task", ["2026-2", "2026-3"])
def test_a_run_becomes_a_zip_that_validates(folder: Path, task: Task) -> None:
    ended = evigraph("submit", "run", "--task", task, folder=folder)
    assert ended.code == 0
    path = folder / "run" / f"submission-{task}.zip"
    assert f"12 cases in run/{path.name}" in ended.out
    assert zipfile.ZipFile(path).namelist() == ["submission.json"]
    assert len(ARCHEHR[task].read(path)) == 12
    checked = evigraph(
        "validate", path, "--task", task, "--cases", SAMPLES / "batch.xml", "--json", folder=folder
    )
    assert (checked.code, checked.summary["refused"], checked.summary["not_checked"]) == (0, 0, [])


@pytest.mark.parametrize(
    ("task", "fields", "written"),
    [
        ("2025", {"aligned_answer": "generated"}, {"answer": "He was ill. |3,1|\nIt helped."}),
        (
            "2026-4",
            {"aligned_answer": "clinician"},
            {"prediction": [{"answer_id": "1", "evidence_id": ["3", "1"]}]},
        ),
        ("2026-1", {"interpreted_question": "Why?"}, {"prediction": "Why?"}),
    ],
)
def test_what_only_some_recipes_ask_for_is_handed_in(
    tmp_path: Path, task: Task, fields: dict[str, object], written: dict[str, object]
) -> None:
    sentences = [{"id": "1", "text": "He was ill."}, {"id": "2", "text": "It helped."}]
    line = done("7", answer_sentences=sentences, alignment={"1": ["3", "1"], "2": []}, **fields)
    make_run(tmp_path, ["7"], [line])
    assert evigraph("submit", "run", "--task", task, "--out", "s.json", folder=tmp_path).code == 0
    assert json.loads((tmp_path / "s.json").read_text("utf-8")) == [{"case_id": "7", **written}]


def test_submit_refuses_what_the_run_was_not_asked_for(folder: Path) -> None:
    ended = evigraph("submit", "run", "--task", "2025", folder=folder)
    assert (ended.code, ended.out) == (1, "")
    assert "Run with a recipe that has alignment.answer: generated" in ended.err
    assert "nothing written: run: the run has no citations" in ended.err
    assert not (folder / "run" / "submission-2025.zip").exists()


def test_submit_names_failed_cases_and_leaves_an_older_file_alone(tmp_path: Path) -> None:
    make_run(tmp_path, ["7", "8"], [done("7"), failed("8")])
    (tmp_path / "old.zip").write_text("old")
    ended = evigraph("submit", "run", "--task", "2026-2", "--out", "old.zip", folder=tmp_path)
    assert ended.code == 1
    assert "nothing written: case '8': failed: timeout. evigraph retry run" in ended.err
    assert (tmp_path / "old.zip").read_text() == "old"


def test_filled_cases_are_said_aloud(tmp_path: Path) -> None:
    make_run(tmp_path, ["7", "8"], [done("7"), failed("8")])
    ended = evigraph("submit", "run", "--task", "2026-2", "--fill-missing", folder=tmp_path)
    assert ended.code == 0
    assert "EMPTY LISTS, not predictions, for 1 case: 8" in ended.err
    assert "2 cases, 1 of them empty in run/submission-2026-2.zip" in ended.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--task", "2026-3", "--fill-missing"), "takes no empty text"),
        (("--task", "2026-2", "--out", "s.txt"), "ends in .zip or .json"),
        (("--task", "2026-5"), "'2026-5' is not one of"),
    ],
)
def test_wrong_usage_of_submit(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    ended = evigraph("submit", "run", *arguments, folder=folder)
    assert (ended.code, words in " ".join(ended.err.split())) == (2, True)


def test_validate_ends_with_1_where_something_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "s.json", {"case_id": "7", "prediction": ["1", 2]})
    ended = evigraph("validate", "s.json", folder=tmp_path)
    assert ended.code == 1
    assert "prediction[1]" in ended.out
    assert ended.out.splitlines()[-1] == "s.json: 1 entry for 2026-2: 1 refused"


def test_validate_ends_with_0_where_something_is_only_penalised(tmp_path: Path) -> None:
    write(tmp_path / "s.json", {"case_id": "7", "answer": "So. |1, 2|"})
    ended = evigraph("validate", "s.json", folder=tmp_path)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "s.json: 1 entry for 2025: 1 penalised"
    assert "not checked: missing and extra cases" in ended.out


def test_validate_json_has_every_fault(tmp_path: Path) -> None:
    write(tmp_path / "s.json", *({"case_id": str(n), "prediction": [n]} for n in range(60)))
    summary = evigraph("validate", "s.json", "--json", folder=tmp_path).summary
    assert (summary["ok"], summary["refused"], len(summary["faults"])) == (False, 60, 60)
    shown = evigraph("validate", "s.json", "--rows", "59", folder=tmp_path).out
    assert "... and 1 more: --rows 60 shows all" in shown
    assert "shows all" not in evigraph("validate", "s.json", "--rows", "60", folder=tmp_path).out
    assert summary["faults"][0] == {
        "severity": "refused",
        "case": "0",
        "place": "prediction[0]",
        "fault": "the number 0, not text",
        "remedy": 'Write "0"',
    }


def test_validate_asks_for_the_task_where_the_shape_does_not_tell(tmp_path: Path) -> None:
    write(tmp_path / "s.json", {"case_id": "7", "prediction": "Why?"})
    ended = evigraph("validate", "s.json", folder=tmp_path)
    assert ended.code == 2
    assert "--task 2026-1 or --task 2026-3" in " ".join(ended.err.replace("│", "").split())


def test_validate_of_no_file(tmp_path: Path) -> None:
    ended = evigraph("validate", "none.zip", folder=tmp_path)
    assert (ended.code, "none.zip: cannot be read" in ended.line) == (2, True)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_hostile_text_stays_data(tmp_path: Path, flags: tuple[str, ...]) -> None:
    text = '[{"case_id": "\\ud83d[red]\\u001b[31m", "prediction": ["\\ud83d [bold]x\\u202e", " 1"]}]'
    (tmp_path / "s.json").write_text(text)
    ended = evigraph("validate", "s.json", *flags, folder=tmp_path)
    assert ended.code == 1
    assert "\x1b" not in ended.out and "\u202e" not in ended.out and "[red]" in ended.out
