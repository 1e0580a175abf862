from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from cli.main import main
from runs.record.folder import RunFolder
from runs.record.sealed import seal_line
from storage.errors import InputError
from tests.evigraph import Ended, evigraph, write_cases, write_recipe

SAMPLES = Path(str(resources.files("cases").joinpath("samples")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run `run` of the first three sample cases."""
    folder = tmp_path_factory.mktemp("commands")
    write_recipe(folder)
    ended = run(folder, SAMPLES / "batch.xml", "--limit", "3", "--out", "run")
    assert ended.code == 0
    return folder


def run(folder: Path, *arguments: str | Path) -> Ended:
    return evigraph(
        "run", "tamu", *arguments, "--model", "scripted:auto", "--recipe", "lexical.yaml", folder=folder
    )


def test_the_default_folder_is_new_each_time(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    write_cases(tmp_path / "cases.jsonl", 1)
    first = run(tmp_path, "cases.jsonl", "--json").summary["run"]
    second = run(tmp_path, "cases.jsonl", "--json").summary["run"]
    assert first != second
    assert first.startswith("out/") and "-tamu-" in first


def test_show_rows_are_limited_and_say_how_to_see_more(folder: Path) -> None:
    assert "... and 2 more: --rows 3 shows all" in evigraph("show", "run", "--rows", "1", folder=folder).out


def test_a_list_of_80_columns_keeps_case_and_score_whole(folder: Path) -> None:
    verified = ("--set", "verification=rules", "--set", "answerability=json")
    run(folder, SAMPLES / "batch.xml", "--limit", "1", *verified, "--out", "verified")
    shown = evigraph("show", "verified", folder=folder, environment={"COLUMNS": "80"}).out
    heading, first = shown.splitlines()[:2]
    assert heading.split()[:3] == ["case", "status", "F1"] and "answerable" in heading
    case_id, status, score = first.split()[:3]
    assert (case_id, status) == ("101", "done") and float(score) >= 0


def test_show_tells_how_sure_labels_are(folder: Path) -> None:
    run(folder, SAMPLES / "batch.xml", "--limit", "1", "--out", "sure")
    path = folder / "sure" / "cases.jsonl"
    (line,) = RunFolder(folder / "sure").cases()
    line["label_confidence"] = {id_: 0.625 for id_ in line["labels"]} | {"2": None}
    path.write_bytes(seal_line(json.dumps(line).encode()) + b"\n")
    shown = evigraph("show", "sure", "101", folder=folder).out
    assert "P(essential)" in shown
    assert shown.count(" 0.62 ") == len(line["labels"]) - 1
    assert "P(essential)" not in evigraph("show", "run", "101", folder=folder).out


def test_show_failed_only(folder: Path) -> None:
    shown = evigraph("show", "run", "--failed", "--json", folder=folder).summary
    assert shown["rows"] == []


def test_show_works_when_the_case_files_are_gone(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    cases = write_cases(tmp_path / "cases.jsonl", 1)
    run(tmp_path, "cases.jsonl", "--out", "run")
    cases.unlink()
    shown = evigraph("show", "run", "k0", folder=tmp_path)
    assert shown.code == 0
    assert "texts not shown" in shown.out and "aggregate_votes" in shown.out


def test_output_into_a_closed_pipe_is_no_error(folder: Path) -> None:
    import os
    import subprocess
    import sys

    command = f"{sys.executable} -c 'from cli.main import main; main()' show run 103 --calls | head -1"
    done = subprocess.run(
        command, shell=True, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_a_pull_takes_no_file_of_another_model(tmp_path: Path) -> None:
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    ended = evigraph(
        *("models", "pull", "qwen2.5-coder-0.5b", "--file", "other.gguf"),
        folder=tmp_path,
        environment={"EVIGRAPH_CACHE": str(tmp_path / "cache")},
    )
    assert ended.code == 2
    assert "other.gguf has 4 bytes of 491,400,064" in ended.line
    assert evigraph("models", "pull", "none", folder=tmp_path).line.startswith(
        "unknown embedded model 'none'"
    )


def test_demos_build_classifies_missing_intents(tmp_path: Path) -> None:
    case = {
        "case_id": "d1",
        "question": "Why was it done?",
        "sentences": ["a", "b"],
        "labels": {"1": "essential", "2": "not-relevant"},
        "answer": "It was needed. It helped.",
    }
    (tmp_path / "demos.jsonl").write_text(json.dumps(case) + "\n")
    build = ("demos", "build", "demos.jsonl", "--to", "pool", "--embedding", "lexical:64")
    assert "(1 without an intent)" in evigraph(*build, folder=tmp_path).out
    assert evigraph(*build, "--model", "scripted:auto", folder=tmp_path).code == 0
    listed = evigraph("demos", "list", "pool", "--embedding", "lexical:64", "--json", folder=tmp_path).summary
    assert listed["demonstrations"][0]["intent"] is not None


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    ended = evigraph("show", "nowhere", "--debug", folder=tmp_path)
    assert ended.code == 1
    assert "Traceback" in ended.err


def test_how_a_command_ends_is_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    faults: dict[BaseException, int] = {
        KeyboardInterrupt(): 130,
        ZeroDivisionError("no cases"): 1,
        InputError("x" * 4_000, "is wrong"): 2,
        BrokenPipeError(): 0,
    }
    monkeypatch.setattr("sys.argv", ["evigraph", "show"])
    for fault, code in faults.items():

        def ended(fault: BaseException = fault, **_: object) -> None:
            raise fault

        monkeypatch.setattr("cli.main.app", ended)
        with (tmp_path / "out").open("w") as out, monkeypatch.context() as patched:
            patched.setattr("sys.stdout", out)
            with pytest.raises(SystemExit) as done:
                main()
        assert done.value.code == code
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("evigraph: internal error: ZeroDivisionError: no cases (run again with --debug")
    assert len(second) == 10 + 2000 + 5 + 1000 and " ... " in second and second.endswith("x: is wrong")
