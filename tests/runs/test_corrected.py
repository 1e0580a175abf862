"""A run continues with corrected case files: only changed cases run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import RunFolder
from tests.evigraph import Ended, evigraph

BROKEN = {"case_id": "bad", "question": "Why?", "sentences": []}
CORRECTED = BROKEN | {"sentences": ["It was done for a leak.", "Smoker."]}


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    return {line["case_id"]: line for line in RunFolder(folder / "run").cases()}


def write(cases: Path, entries: list[dict[str, Any]]) -> None:
    cases.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


@pytest.fixture
def entries(tmp_path: Path, recipe: Path, cases: Path) -> list[dict[str, Any]]:
    """The six cases of the case file, which has a seventh that cannot be read; they have been run."""
    entries = [json.loads(line) for line in cases.read_text().splitlines()]
    write(cases, [*entries, BROKEN])
    given = ("run", "tamu", "cases.jsonl", "--recipe", recipe, "--model", "scripted:auto", "--out", "run")
    ended = evigraph(*given, "--json", folder=tmp_path)
    assert ended.summary["errors"] == {"invalid_input": 1}
    assert ended.summary["next"][0] == "evigraph retry run --corrected"
    return entries


def correct(folder: Path, *more: str) -> Ended:
    return evigraph("retry", "run", "--corrected", "--json", *more, folder=folder)


def test_a_corrected_case_runs_alone(tmp_path: Path, cases: Path, entries: list[dict[str, Any]]) -> None:
    before, sha256 = lines(tmp_path), RunFolder(tmp_path / "run").manifest.inputs.sha256
    write(cases, [*entries, CORRECTED])
    refused = evigraph("retry", "run", folder=tmp_path)
    assert refused.code == 2
    assert refused.line.endswith("run the changed cases alone: evigraph retry run --corrected")
    ended = correct(tmp_path)
    assert (ended.code, ended.summary["done"], ended.summary["failed"]) == (0, 7, 0)
    assert "the case files have changed in 1 case; unchanged: 6" in ended.err
    after = lines(tmp_path)
    assert ended.summary["cases_run"] == 1
    # One of its calls may be in the journal already.
    assert 0 < ended.summary["last_session"]["calls"] <= after["bad"]["usage"]["calls"]
    assert {**after, "bad": before["bad"]} == before
    manifest = RunFolder(tmp_path / "run").manifest
    assert manifest.resources["corrected_case_files"] == {"earlier": [sha256]}
    assert manifest.inputs.sha256 != sha256
    assert evigraph("resume", "run", folder=tmp_path).code == 0


def test_a_changed_case_runs_anew_and_one_that_is_gone_goes(
    tmp_path: Path, cases: Path, entries: list[dict[str, Any]]
) -> None:
    changed = entries[1] | {"question": "Why was it really done?"}
    write(cases, [entries[0], changed, *entries[3:]])
    ended = correct(tmp_path)
    assert (ended.code, ended.summary["cases"], ended.summary["done"]) == (0, 5, 5)
    assert list(lines(tmp_path)) == ["k0", "k1", "k3", "k4", "k5"]
    assert ended.summary["cases_run"] == 1
    shown = evigraph("show", "run", "k1", "--calls", folder=tmp_path).out
    assert "Why was it really done?" in shown


def test_what_was_stopped_on_its_way_is_resumed(
    tmp_path: Path, cases: Path, entries: list[dict[str, Any]]
) -> None:
    write(cases, [entries[0], entries[1] | {"question": "Why was it really done?"}, *entries[2:], CORRECTED])
    stopped = correct(tmp_path, "--max-tokens-total", "1")
    assert (stopped.code, stopped.summary["done"]) == (1, 5)
    assert "k1" not in lines(tmp_path)
    ended = evigraph("resume", "run", "--max-tokens-total", "10000000", "--json", folder=tmp_path)
    assert (ended.code, ended.summary["done"], ended.summary["cases_run"]) == (0, 7, 2)


def test_without_the_texts_of_before_all_run_again_on_replayed_calls(
    tmp_path: Path, cases: Path, entries: list[dict[str, Any]]
) -> None:
    before = lines(tmp_path)
    (tmp_path / "run" / "index.sqlite").unlink()
    write(cases, [*entries, CORRECTED])
    ended = correct(tmp_path)
    assert (ended.code, ended.summary["done"], ended.summary["cases_run"]) == (0, 7, 7)
    after = lines(tmp_path)
    assert 0 < ended.summary["last_session"]["calls"] <= after["bad"]["usage"]["calls"]
    assert {**after, "bad": before["bad"]} == before


def test_files_that_have_not_changed_change_nothing(
    tmp_path: Path, cases: Path, entries: list[dict[str, Any]]
) -> None:
    ended = correct(tmp_path)
    assert (ended.code, ended.summary["errors"]) == (1, {"invalid_input": 1})
    assert "corrected_case_files" not in RunFolder(tmp_path / "run").manifest.resources
