"""Which role thinks how much, by recipe and command line."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from cli.set_values import effort_values
from graph.recipe import load_recipe, make_recipe
from nodes.core.recipe import Recipe
from serving.protocol.model_name import ROLES, Role
from serving.protocol.thinking import Effort


def by_role(effort: Any) -> dict[Role, Effort | None]:
    recipe = make_recipe({"system": "tamu", "effort": effort}, "mine.yaml")
    return {role: recipe.effort_of(role) for role in ROLES}


def given(*texts: str, recipe: Recipe | None = None) -> dict[Role, Effort | None]:
    return by_role(effort_values(texts, {} if recipe is None else recipe.effort)["effort"])


def test_one_word_is_for_all_roles() -> None:
    assert given("low") == by_role("low") == dict.fromkeys(ROLES, "low")


def test_a_bare_off_in_a_recipe_is_no_false() -> None:
    assert by_role(False) == by_role({role: False for role in ROLES}) == dict.fromkeys(ROLES, "off")


def test_a_reflection_goes_on_with_the_effort_of_the_labels_that_it_reflects_on() -> None:
    found = given("minimal", "label=high")
    assert (found["classify"], found["label"], found["reflect"]) == ("minimal", "high", "high")
    assert given("label=high", "reflect=low")["reflect"] == "low"


def test_the_command_line_changes_what_a_recipe_says() -> None:
    recipe = make_recipe({"system": "tamu", "effort": {"label": "low", "answer": "high"}}, "mine.yaml")
    found = given("label=max", recipe=recipe)
    assert (found["label"], found["answer"], found["classify"]) == ("max", "high", None)
    assert given("off", recipe=recipe) == dict.fromkeys(ROLES, "off")


def test_a_recipe_without_an_effort_keeps_its_hash() -> None:
    assert effort_values((), {"label": "low"}) == {}
    assert "effort" not in load_recipe("tamu").model_dump(mode="json")


@pytest.mark.parametrize("text", ["huge", "nobody=low", "label="])
def test_unknown_levels_and_roles_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--effort: unknown"):
        effort_values([text], {})
