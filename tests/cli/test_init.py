from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cases.load import find_cases
from cases.records import Case
from graph.recipe import load_recipe
from tests.evigraph import evigraph


def test_the_three_commands_that_it_prints_go_on_from_a_note(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("He bled after a fall.\nVitamin K was given at\n10 mg.\n")
    asked = ("--note", "note.txt", "-q", "Why was vitamin K given?", "--model", "scripted:auto")
    made = evigraph("init", "my study", *asked, folder=tmp_path)
    assert made.code == 0, made.err
    _, commands = made.out.split("next:\n")
    run, show, explain = (shlex.split(line)[1:] for line in commands.splitlines())
    ran = evigraph(*run, folder=tmp_path)
    assert ran.code == 0, ran.err
    shown = evigraph(*show, folder=tmp_path)
    assert shown.code == 0 and "Vitamin K was given at 10 mg." in shown.out
    explained = evigraph(*explain, folder=tmp_path)
    assert explained.code == 0 and "evidence.votes" in explained.out


def test_an_invented_note_and_the_small_model_without_options(tmp_path: Path) -> None:
    written = evigraph("init", "--json", folder=tmp_path).summary
    (case,) = find_cases([tmp_path / written["file"]])
    assert isinstance(case, Case) and "03/01; Na: 131; K: 5.2; Cr: 2.1" in [
        one.text for one in case.sentences
    ]
    recipe = load_recipe(str(tmp_path / written["recipe"]))
    packaged = load_recipe("laptop")
    assert recipe.model_copy(update={"models": {}}) == packaged
    assert {*recipe.models.values()} == {"embedded:qwen2.5-coder-1.5b"}


@pytest.mark.parametrize("name", ["recipe.yaml", "cases.jsonl"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    ended = evigraph("init", folder=tmp_path)
    assert ended.code == 2 and ended.line.startswith(f"{name}: is there already")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--note", "none.txt"), "none.txt: no such file"),
        (("--note", "a.txt"), "a.txt: has no question"),
        (("--model", "nope:x"), "unknown provider"),
    ],
)
def test_bad_input_writes_nothing(tmp_path: Path, arguments: tuple[str, ...], fault: str) -> None:
    (tmp_path / "a.txt").write_text("One.")
    ended = evigraph("init", "new", *arguments, folder=tmp_path)
    assert ended.code == 2 and fault in ended.line and not (tmp_path / "new").exists()
