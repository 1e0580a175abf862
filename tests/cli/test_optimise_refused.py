"""Bad input to `optimise`: one line, and no call."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cli.measuring.optimise import _test
from evals.optimisation.split import CaseFiles
from tests.evals.optimisation.answering import write_inputs
from tests.evigraph import Ended, evigraph

GIVEN = {
    "--cases": "cases.jsonl",
    "--model": "scripted:script.py:well",
    "--budget": "1000000",
    "--out": "out",
}


def optimise(folder: Path, recipe: str = "small.yaml", **changed: str) -> Ended:
    options = GIVEN | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return evigraph("optimise", recipe, *(word for pair in options.items() for word in pair), folder=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path


def test_too_few_cases_to_split(folder: Path) -> None:
    write_inputs(folder, cases=6)
    ended = optimise(folder)
    assert ended.code == 2
    assert "6 labelled cases leave 3 for the search part, which needs 4" in ended.line
    assert not (folder / "out" / "calls.sqlite").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"test": "1.5"}, "give a share between 0 and 1, or a file"),
        ({"test_key": "cases.jsonl"}, "--test-key needs --test FILE"),
    ],
)
def test_a_share_that_is_none(folder: Path, changed: dict[str, str], words: str) -> None:
    ended = optimise(folder, **changed)
    assert ended.code == 2
    assert words in " ".join(ended.err.split())


def test_a_model_that_proposes_nothing_ends_it(folder: Path) -> None:
    ended = optimise(folder, model="scripted:script.py:failing", max_retries="0")
    assert ended.code == 2
    assert ended.line == "scripted: no"
    assert not (folder / "out" / "study.log").exists()


def test_a_recipe_that_fails_everywhere_is_an_error(folder: Path) -> None:
    ended = optimise(folder, model="scripted:script.py:failing", instructions="0", max_retries="0")
    assert ended.code == 2
    assert "the given recipe failed on each of 8 cases; see why: evigraph show " in ended.line


def test_cases_to_test_on_are_a_share_or_files_with_their_key(tmp_path: Path) -> None:
    file, key = tmp_path / "test.jsonl", tmp_path / "key.json"
    file.touch()
    assert _test("0.25", None) == 0.25
    assert _test(str(file), None) == CaseFiles((file,))
    assert _test(str(file), [key]) == CaseFiles((file,), (key,))
    for share in ("0", "1", "-0.5"):
        with pytest.raises(typer.BadParameter, match="a share between 0 and 1"):
            _test(share, None)
    with pytest.raises(typer.BadParameter, match="--test-key needs --test FILE"):
        _test("0.25", [key])
