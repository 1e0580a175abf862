"""The report of a run holds what the run knows, and no markup or text of others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.records import Case
from evals.card import FOR_THE_AUTHOR, code, make_card
from runs.record.folder import RunFolder
from runs.record.manifest import recorded_cases
from runs.upkeep.purge import plan, purge
from tests.evigraph import edit_manifest, evigraph, write_recipe

SAMPLES = Path(__file__).parents[2] / "cases" / "samples"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("card")
    command = ("run", "tamu", SAMPLES / "batch.xml", "--recipe", write_recipe(folder), "--limit", "3")
    assert evigraph(*command, "--model", "scripted:auto", "--out", "run", folder=folder).code == 0
    return RunFolder(folder / "run")


def known(run: RunFolder) -> dict[str, dict[str, str]]:
    return {one.number: dict(one.known) for one in make_card(run).items if one.known}


def test_what_the_run_knows_is_filled_in(run: RunFolder) -> None:
    items, manifest = known(run), run.manifest
    assert items["5a"]["SHA-256 of case files and keys"] == manifest.inputs.sha256
    assert items["6a"]["model of label"] == "scripted:auto auto"
    assert items["6b"]["seed"] == "42" and items["6b"]["evidence.votes"] == "3"
    assert items["6e"]["evidence.threshold"] == "2"
    assert items["9a"]["prompt label_evidence"] == f"SHA-256 {manifest.prompts['label_evidence']}"
    assert items["12"]["calls"] == str(manifest.sessions[0].calls)
    assert items["16a"]["done"] == "3" and items["16a"]["failed"] == "0"
    name, value = next(iter(items["17"].items()))
    assert name == "2026-2 strict_macro_precision" and "[" in value
    markdown = make_card(run).as_markdown()
    assert markdown.count(f"*{FOR_THE_AUTHOR}*") == 1 + sum(not one.known for one in make_card(run).items)
    assert "## 13 Ethics approval and consent\n\n*for the author*" in markdown


def test_what_was_measured_is_in_the_compute_and_the_rest_is_not(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    session = {"command": "run", "started": "2026-01-01T00:00:00+00:00", "calls": 1200}
    edit_manifest(copy, sessions=[session])
    bare = known(RunFolder(copy))["12"]
    assert bare["calls"] == "1,200" and not {"cost", "seconds", "processor seconds of this process"} & {*bare}
    measured = {"cost": 1.25, "seconds": 2.0, "processor_seconds": 0.5}
    edit_manifest(copy, sessions=[session | measured, session | measured])
    found = known(RunFolder(copy))["12"]
    assert (found["sessions"], found["cost"], found["seconds"]) == ("2", "2.5000", "4.0")
    assert found["processor seconds of this process"] == "1.0"


def texts(run: RunFolder) -> Iterator[str]:
    for case in recorded_cases(run.manifest):
        assert isinstance(case, Case)
        yield from (case.narrative, case.question, *(sentence.text for sentence in case.sentences))


def test_no_text_of_a_case_comes_in(run: RunFolder) -> None:
    content = make_card(run).as_markdown()
    assert not any(text[at : at + 24] in content for text in texts(run) for at in range(len(text) - 23))


def test_names_are_no_markup() -> None:
    assert code("a`b\n# c <b>\x1b[31m").count("`") == 2
    assert "\n" not in code("a\n# b") and "\x1b" not in code("\x1b[31m")


def test_a_purged_run_keeps_its_numbers(run: RunFolder, tmp_path: Path) -> None:
    before = known(run)["17"]
    scores = {"tasks": [{"task": "t", "values": {"f1": 50.0}, "intervals": {"f1": [40.0, 60.0]}}]}
    purge(run, plan(run, []), scores)
    assert before and known(run)["17"] == {"t f1": "50.00 [40.00, 60.00]"}
