"""`evigraph recipes`: what is packaged, and what a recipe can set."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from cli.looking.recipes import explain
from graph.recipe import RECIPES
from tests.evigraph import COMMAND, evigraph


class _Section(BaseModel):
    """Votes.

    Attributes:
        count: How many, at
            most.
        rule: Not read.
    """

    count: int | None = Field(None, ge=1, le=9)
    rule: str = Field("majority", description="Who wins.")


class _Recipe(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    system: str
    votes: _Section = _Section()
    kinds: tuple[str, ...] = ()
    """What is voted on."""


def test_every_field_is_explained_from_wherever_its_meaning_stands() -> None:
    fields = {one.name: one for one in explain(_Recipe(system="toy", votes=_Section(count=3)))}
    assert list(fields) == ["system", "votes.count", "votes.rule", "kinds"]
    assert fields["system"].required and not fields["kinds"].required
    count = fields["votes.count"]
    assert (count.type, count.default, count.value) == ("integer | null from 1 to 9", None, 3)
    assert count.meaning == "How many, at most."
    assert fields["votes.rule"].meaning == "Who wins."
    assert (fields["kinds"].type, fields["kinds"].meaning) == ("list of text", "What is voted on.")


def test_all_recipes_are_listed_with_what_they_are(tmp_path: Path) -> None:
    listed = evigraph("recipes", "--json", folder=tmp_path).summary["recipes"]
    assert [one["name"] for one in listed] == RECIPES.packaged_names()
    assert all(one["summary"] and one["system"] for one in listed)
    (demo,) = (one["summary"] for one in listed if one["name"] == "demo")
    assert demo == (
        "A small recipe for two cores and the embedded model: fewer demonstrations and votes than `tamu`."
    )


def test_a_recipe_is_printed_as_it_was_written(tmp_path: Path) -> None:
    printed = evigraph("recipes", "tamu", folder=tmp_path).out
    assert printed.startswith("# TAMU-NLP")
    (tmp_path / "mine.yaml").write_text(printed)
    shown = evigraph("recipes", "mine.yaml", "--json", folder=tmp_path).summary
    assert (shown["name"], shown["system"], shown["text"]) == ("mine.yaml", "tamu", printed)


def test_fields_have_types_defaults_and_the_values_of_the_recipe(tmp_path: Path) -> None:
    found = evigraph("recipes", "demo", "--json", folder=tmp_path).summary["fields"]
    threshold = next(one for one in found if one["name"] == "evidence.threshold")
    assert (threshold["type"], threshold["default"], threshold["value"]) == ("integer from 1", 3, 2)
    table = evigraph("recipes", "demo", "--fields", folder=tmp_path).out
    (line,) = (line for line in table.splitlines() if line.startswith("evidence.threshold "))
    assert "3 (here 2)" in line


@pytest.mark.parametrize("name", ["tmau", "missing.yaml"])
def test_an_unknown_recipe_is_one_line(tmp_path: Path, name: str) -> None:
    ended = evigraph("recipes", name, folder=tmp_path)
    assert ended.code == 2
    assert ended.line.startswith(f"recipe {name}: ")


def test_a_recipe_with_ends_of_lines_of_another_time_is_printed_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_bytes(b"system: tamu\revidence: {votes: 3, threshold: 2}\r")
    printed = subprocess.run([*COMMAND, "recipes", "old.yaml"], cwd=tmp_path, capture_output=True, check=True)
    assert printed.stdout == b"system: tamu\nevidence: {votes: 3, threshold: 2}\n"
