"""Fields of recipes belong to systems; options of the command line belong to fields."""

from __future__ import annotations

from typing import Any

import pytest

from graph.recipe import RecipeError, load_recipe, make_recipe, option_fields, override, unused_option
from graph.system import find_system, systems
from nodes.core.recipe import RecipeSection

COMMON = {"system", "prompts", "models", "seed", "held_out"}
FOREIGN = [
    pytest.param(name, field, id=f"{name}-{field}")
    for name in systems()
    for field in sorted({field for other in systems() for field in find_system(other).recipe.model_fields})
    if field not in find_system(name).recipe.model_fields
]


@pytest.mark.parametrize(("name", "field"), FOREIGN)
def test_a_field_of_another_system_is_refused(name: str, field: str) -> None:
    with pytest.raises(RecipeError, match=rf"^recipe mine\.yaml: unknown field '{field}'; ") as caught:
        make_recipe({"system": name, field: {}}, "mine.yaml")
    known = set(find_system(name).recipe.model_fields)
    hint = str(caught.value).partition("; ")[2]
    named = hint.removeprefix("known: ").split(", ")
    assert set(named) == known or hint.removeprefix("did you mean ").strip("'?") in known


def test_the_message_names_all_that_the_system_knows() -> None:
    with pytest.raises(RecipeError) as caught:
        make_recipe({"system": "weak_labels", "documents": {"phase": "a"}}, "mine.yaml")
    assert str(caught.value) == (
        "recipe mine.yaml: unknown field 'documents';"
        " known: system, prompts, models, effort, seed, held_out, evidence"
    )


def test_a_field_that_is_nearly_one_of_the_system_is_suggested() -> None:
    with pytest.raises(RecipeError) as caught:
        make_recipe({"system": "heids", "retrival": {}}, "mine.yaml")
    assert str(caught.value) == "recipe mine.yaml: unknown field 'retrival'; did you mean 'retrieval'?"


def test_a_value_of_another_systems_section_of_the_same_name_is_refused() -> None:
    """Both vote on evidence; only one has reflections."""
    with pytest.raises(RecipeError, match=r"unknown field 'evidence\.reflection'"):
        make_recipe({"system": "weak_labels", "evidence": {"reflection": False}}, "mine.yaml")
    assert make_recipe({"system": "tamu", "evidence": {"reflection": False}}, "mine.yaml")


def test_every_recipe_has_the_common_fields() -> None:
    assert all(set(find_system(name).recipe.model_fields) >= COMMON for name in systems())


def test_an_override_of_another_systems_field_is_refused() -> None:
    with pytest.raises(RecipeError, match="unknown field 'documents'"):
        override(load_recipe("tamu"), {"documents.phase": "a"}, "tamu")


@pytest.mark.parametrize("name", systems())
def test_options_set_fields_that_exist(name: str) -> None:
    schema = find_system(name).recipe
    for field in option_fields(schema).values():
        section, _, value = field.partition(".")
        kind = schema.model_fields[section].annotation
        assert isinstance(kind, type)
        assert issubclass(kind, RecipeSection)
        assert value in kind.model_fields


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "tamu",
            {
                "votes": "evidence.votes",
                "threshold": "evidence.threshold",
                "evidence": "evidence.voters",
                "ranker": "evidence.ranker",
            },
        ),
        ("weak_labels", {"votes": "evidence.votes", "threshold": "evidence.threshold"}),
    ],
)
def test_options_of_votes_are_those_of_systems_that_vote(name: str, fields: dict[str, str]) -> None:
    found = option_fields(find_system(name).recipe)
    assert {option: field for option, field in found.items() if field.startswith("evidence.")} == fields


def test_systems_that_do_not_vote_have_no_such_option() -> None:
    for name in ("heids", "timeaware", "bioasq"):
        assert {"votes", "threshold", "evidence"}.isdisjoint(option_fields(find_system(name).recipe))


@pytest.mark.parametrize(
    ("evidence", "need"),
    [("llm", "--evidence ranker, or both"), ("ranker", None), ("both", None)],
)
def test_an_option_that_nothing_reads_says_what_it_needs(evidence: Any, need: str | None) -> None:
    recipe = make_recipe({"system": "tamu", "evidence": evidence}, "mine.yaml")
    assert unused_option(recipe, "ranker") == need
    assert unused_option(recipe, "votes") is None


def test_an_option_of_no_section_needs_nothing() -> None:
    assert unused_option(load_recipe("tamu"), "colour") is None
