from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import CASES, RunFolder, RunWriter
from runs.record.found import Remarks, read_remarks
from runs.record.manifest import SCHEMA_VERSION, Inputs, Manifest, RunError
from runs.record.purged import PURGED, purged_of
from serving.policy import gate
from serving.policy.policy import HeldPolicy, Policy


def a_manifest() -> Manifest:
    return Manifest(
        evigraph="0",
        system="tamu",
        recipe={},
        recipe_sha256="",
        recipe_origin="tamu",
        prompts={},
        inputs=Inputs(paths=[], sha256="", cases=3),
        models={},
        versions={},
    )


def a_line(case_id: str, status: str = "done") -> dict[str, Any]:
    error = {"class": "timeout", "message": "late"} if status == "failed" else None
    return {"case_id": case_id, "status": status, "error": error}


def a_step(case_id: str, step: int) -> dict[str, Any]:
    return {"case_id": case_id, "step": step, "node": f"node{step}"}


def test_a_torn_line_is_passed_over_by_readers(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("a"), [])
    with (tmp_path / "run" / CASES).open("a") as file:
        file.write('{"case_id": "b", "sta')
    assert RunFolder(tmp_path / "run").statuses() == {"a": "done"}


def test_a_torn_line_longer_than_a_block_is_cut_off(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("a"), [])
    whole = (tmp_path / "run" / CASES).read_bytes()
    (tmp_path / "run" / CASES).write_bytes(whole + b'{"case_id": "' + b"x" * 200_000)
    RunWriter(tmp_path / "run").close()
    assert (tmp_path / "run" / CASES).read_bytes() == whole


def test_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("a", "failed"), [])
        folder.append(a_line("b"), [])
        folder.append(a_line("a"), [])
    run = RunFolder(tmp_path / "run")
    assert [(line["case_id"], line["status"]) for line in run.cases()] == [("b", "done"), ("a", "done")]
    assert run.statuses() == {"a": "done", "b": "done"}


def test_lines_that_are_appended_while_cases_are_read_come_with_the_next_reading(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("a"), [])
        folder.append(a_line("b", "failed"), [])
        reading = RunFolder(tmp_path / "run").cases()
        assert next(reading)["case_id"] == "a"
        folder.append(a_line("b"), [])
        folder.append(a_line("c"), [])
        assert [(line["case_id"], line["status"]) for line in reading] == [("b", "failed")]


def test_compaction_puts_the_cases_into_input_order_with_one_line_each(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("b"), [])
        folder.append(a_line("a", "failed"), [])
        folder.append(a_line("a"), [])
        folder.compact({"a": 0, "b": 1})
        folder.append(a_line("c"), [])
    lines = [json.loads(line) for line in (tmp_path / "run" / CASES).read_text().splitlines()]
    assert [(line["case_id"], line["status"]) for line in lines] == [
        ("a", "done"),
        ("b", "done"),
        ("c", "done"),
    ]


def test_the_trace_of_a_case_is_its_last_pass(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("a", "failed"), [a_step("a", 0), a_step("a", 1)])
        folder.append(a_line("b"), [a_step("b", 0)])
        folder.append(a_line("a"), [a_step("a", 0)])
    assert RunFolder(tmp_path / "run").trace("a") == [a_step("a", 0)]


def test_one_process_writes(tmp_path: Path) -> None:
    with (
        RunWriter.create(tmp_path / "run", a_manifest()),
        pytest.raises(RunError, match="another process is writing"),
    ):
        RunWriter(tmp_path / "run")


def test_a_folder_in_use_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        RunWriter.create(tmp_path, a_manifest())


@pytest.mark.parametrize(("version", "words"), [(99, "a newer Evigraph"), (1, "an older Evigraph")])
def test_a_run_of_another_version_is_refused_in_one_line(tmp_path: Path, version: int, words: str) -> None:
    RunWriter.create(tmp_path / "run", a_manifest()).close()
    path = tmp_path / "run" / "run.json"
    text = path.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', f'"schema_version": {version}')
    # As an earlier version wrote it, and a person may edit it: without a checksum.
    path.write_text(re.sub(r',\s*"crc32": "\w+"', "", text))
    with pytest.raises(RunError) as caught:
        RunFolder(tmp_path / "run")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'run'}: written by {words} (schema {version}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"inputs": {"paths": 7}}, "inputs.paths: Input should be a valid list"),
        ({"models": ["label"]}, "models: Input should be a valid dictionary"),
        ({"schema_version": None}, "not a manifest: TypeError"),
    ],
)
def test_a_manifest_of_something_else_is_refused(tmp_path: Path, fields: dict[str, Any], fault: str) -> None:
    RunWriter.create(tmp_path / "run", a_manifest()).close()
    path = tmp_path / "run" / "run.json"
    values = json.loads(path.read_text())
    del values["crc32"]
    path.write_text(json.dumps(values | fields))
    with pytest.raises(RunError) as caught:
        RunFolder(tmp_path / "run")
    assert str(caught.value).startswith(f"{path}: {fault}") and "evigraph check" in str(caught.value)


def test_a_run_that_is_gone_is_named(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append({"status": "done", "error": None}, [])
    run = RunFolder(tmp_path / "run")
    assert [one.fault for one in run.case_lines()] == ["it is not a line of a case"]
    (tmp_path / "run" / CASES).unlink()
    assert list(run.case_lines()) == []
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(RunError, match=r"run\.json: cannot be read: No such file"):
        run.read_manifest()
    with pytest.raises(RunError, match=r"no run here \(run\.json is missing\)"):
        RunWriter(tmp_path / "run")


def test_a_run_whose_policy_forbids_the_current_use_is_not_opened(tmp_path: Path) -> None:
    policy = HeldPolicy(rules=Policy(name="ours"), sha256="0" * 64, origin="policy.yaml")
    RunWriter.create(tmp_path / "run", a_manifest().model_copy(update={"policies": (policy,)})).close()
    gate.release()
    gate.demand_listening("192.0.2.1")
    with pytest.raises(RunError, match=r"run: .*rule view_from_other_hosts"):
        RunFolder(tmp_path / "run")


def test_records_beside_a_run_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert (read_remarks(tmp_path), purged_of(tmp_path)) == (Remarks(), None)
    (tmp_path / "remarks.json").write_text('{"tags": 7}')
    (tmp_path / PURGED).write_text('{"by": "Ann"}')
    with pytest.raises(RunError, match=r"remarks\.json: .*; correct it or remove it"):
        read_remarks(tmp_path)
    with pytest.raises(RunError, match=f"{PURGED}: .*; purge the run again"):
        purged_of(tmp_path)


def test_text_that_is_no_valid_unicode_is_still_kept(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", a_manifest()) as folder:
        folder.append(a_line("a") | {"answer": "half a pair \ud83d"}, [])
    assert RunFolder(tmp_path / "run").require_case("a")["answer"] == "half a pair ?"
