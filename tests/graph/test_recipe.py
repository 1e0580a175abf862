from __future__ import annotations

from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from graph.recipe import (
    RECIPES,
    RecipeError,
    check_prompts,
    differing_fields,
    load_recipe,
    make_recipe,
    override,
)
from graph.system import find_system
from graph.tamu import SYSTEM, TamuRecipe
from nodes.core.recipe import Recipe
from nodes.evidence.calibration import settled_reply
from nodes.evidence.settings import EvidenceSettings, ReviewSettings
from prompts import load_prompts
from ranking.cutoffs import FixedThreshold, TopK
from tests.prompts.versions import ONE_MESSAGE, replaced

QUESTION_ALONE: dict[str, Any] = {"stop_after": "question", "question": {"interpret": "always"}}
NO_DEMONSTRATIONS: dict[str, Any] = {"evidence": {"demonstrations": 0}, "answer": {"demonstrations": 0}}


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(RecipeError) as caught:
        make_recipe({"system": "tamu", **values}, "mine.yaml")
    message = str(caught.value)
    assert message.startswith("recipe mine.yaml: ")
    assert "\n" not in message
    return message.removeprefix("recipe mine.yaml: ")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"promts": "paper"}, "unknown field 'promts'; did you mean 'prompts'?"),
        ({"evidence": {"treshold": 2}}, "unknown field 'evidence.treshold'; did you mean 'threshold'?"),
        ({"answer": {"max_word": 9}}, "unknown field 'answer.max_word'; did you mean 'max_words'?"),
        ({"intent": {"zzz": 1}}, "unknown field 'intent.zzz'; known: temperature, max_tokens"),
    ],
)
def test_an_unknown_field_names_the_nearest(values: dict[str, Any], fault: str) -> None:
    assert refused(values) == fault


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"evidence": {"votes": "many"}}, "evidence.votes: "),
        ({"evidence": {"votes": 0}}, "evidence.votes: "),
        ({"evidence": {"temperature": float("nan")}}, "evidence.temperature: "),
        ({"evidence": {"order": "random"}}, "evidence.order: "),
        ({"evidence": {"reply": "words"}}, "evidence.reply: "),
        ({"evidence": None}, "evidence: "),
        ({"answer": {"evidence": "all"}}, "answer.evidence: "),
        ({"stop_after": "intent"}, "stop_after: "),
        ({"question": {"interpret": "often"}}, "question.interpret: "),
        ({"question": {"max_words": 0}}, "question.max_words: "),
        ({"alignment": {"answer": "both"}}, "alignment.answer: "),
        ({"held_out": [3]}, "held_out.0: "),
        ({"models": {"judge": "scripted:auto"}}, "models.judge"),
        ({"system": None}, "system: "),
    ],
)
def test_a_wrong_value_names_its_field(values: dict[str, Any], fault: str) -> None:
    assert refused(values).startswith(fault)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"evidence": {"votes": 3, "threshold": 4}}, "evidence: threshold 4 is above the number of votes 3"),
        (
            {"evidence": {"votes": "3..5", "threshold": 6}},
            "evidence: threshold 6 is above the number of votes 5",
        ),
        ({"evidence": {"minimum_votes": 6}}, "evidence: minimum_votes 6 is above the number of votes 5"),
        ({"answer": {"min_sentences": 5}}, "answer: min_sentences is above max_sentences"),
        (
            {"stop_after": "evidence", "alignment": {"answer": "generated"}},
            "alignment.answer is 'generated', but stop_after is 'evidence' and leaves none;"
            " align the 'clinician' answer or none",
        ),
        (
            {"stop_after": "question", "question": {"interpret": "missing"}},
            "stop_after is 'question', which needs question.interpret 'always'",
        ),
        (
            {**QUESTION_ALONE, "alignment": {"answer": "clinician"}},
            "alignment.answer is 'clinician', but stop_after is 'question'",
        ),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], fault: str) -> None:
    assert refused(values) == fault


def test_prompts_that_cannot_ask_for_ids_refuse_them() -> None:
    recipe = make_recipe({"system": "tamu", "evidence": {"reply": "ids"}}, "mine.yaml")
    check_prompts(SYSTEM, recipe, load_prompts("default", SYSTEM.contracts), "mine.yaml")
    with pytest.raises(RecipeError, match=r"one_message' has no \$\{reply_form\}"):
        check_prompts(SYSTEM, recipe, load_prompts(ONE_MESSAGE, SYSTEM.contracts), "mine.yaml")


def test_only_prompts_that_are_used_have_to_ask_for_ids(tmp_path: Path) -> None:
    version = replaced(tmp_path, "reflect_on_labels", "${reply_form}", "Reply.")
    prompts = load_prompts(version, SYSTEM.contracts)
    for reflection in (False, True):
        evidence = {"reply": "ids", "reflection": reflection}
        recipe = make_recipe({"system": "tamu", "evidence": evidence}, "mine.yaml")
        with pytest.raises(RecipeError, match="prompt reflect_on_labels") if reflection else nullcontext():
            check_prompts(SYSTEM, recipe, prompts, "mine.yaml")


def test_a_recipe_needs_a_system() -> None:
    with pytest.raises(RecipeError, match=r"recipe mine\.yaml: system: "):
        make_recipe({}, "mine.yaml")
    with pytest.raises(RecipeError, match=r"recipe mine\.yaml: unknown system 'tanu'; did you mean 'tamu'\?"):
        make_recipe({"system": "tanu"}, "mine.yaml")


def test_a_node_reads_the_one_section_of_its_kind() -> None:
    class Twice(Recipe):
        first: ReviewSettings = ReviewSettings()
        second: ReviewSettings = ReviewSettings()

    recipe = Twice(system="twice")
    with pytest.raises(LookupError, match="recipes of 'twice' have several sections of ReviewSettings"):
        recipe.section(ReviewSettings)
    with pytest.raises(LookupError, match="recipes of 'twice' have no EvidenceSettings"):
        recipe.section(EvidenceSettings)
    assert recipe.labels_evidence and recipe.answers and not recipe.waits_for_people


@pytest.mark.parametrize("name", RECIPES.packaged_names())
def test_a_packaged_recipe_loads_with_its_system_and_prompts(name: str) -> None:
    recipe = load_recipe(name)
    system = find_system(recipe.system)
    assert (type(recipe), system.name) == (system.recipe, recipe.system)
    check_prompts(system, recipe, load_prompts(recipe.prompts, system.contracts), name)


def tamu(name: str) -> TamuRecipe:
    recipe = load_recipe(name)
    assert isinstance(recipe, TamuRecipe)
    return recipe


def test_the_tamu_recipe_writes_out_the_defaults() -> None:
    written = yaml.safe_load(resources.files("graph").joinpath("recipes", "tamu.yaml").read_text("utf-8"))
    assert load_recipe("tamu") == TamuRecipe()
    assert set(written) == set(TamuRecipe.model_fields) - {"models", "effort"}


def test_one_run_of_the_2026_recipe_is_for_all_four_subtasks() -> None:
    recipe = tamu("archehr-2026")
    assert (recipe.question.interpret, recipe.alignment.answer) == ("always", "clinician")
    assert (recipe.stop_after, recipe.question.max_words) == ("answer", 15)


def test_the_2025_recipe_cites_its_own_answer() -> None:
    recipe = tamu("archehr-2025")
    assert (recipe.question.interpret, recipe.alignment.answer) == ("never", "generated")


def test_a_users_recipe_loads_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("system: tamu\nevidence: {votes: 7}\n")
    assert tamu(str(path)).evidence.votes == 7


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match="recipe tamo: No such file or directory; did you mean 'tamu'"):
        load_recipe("tamo")


def test_a_recipe_like_no_other_names_them_all() -> None:
    with pytest.raises(RecipeError, match=r"packaged recipes: archehr-2025, .*, demo, .*tamu"):
        load_recipe("zzzzzz")


@pytest.mark.parametrize("text", ["", "- tamu", "tamu", "system: [", "a: b: c"])
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError):
        load_recipe(str(path))


def test_the_hash_counts_values_and_no_order(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("# a comment\nseed: 42\nsystem: tamu\n")
    assert load_recipe(str(path)).sha256 == load_recipe("tamu").sha256
    assert TamuRecipe(seed=43).sha256 != load_recipe("tamu").sha256


def test_differing_fields_are_named_by_their_path() -> None:
    other = make_recipe({"system": "tamu", "seed": 7, "evidence": {"votes": 9}}, "mine.yaml")
    differing = differing_fields(TamuRecipe().model_dump(), other.model_dump())
    assert differing == ["evidence.votes", "seed"]


@pytest.mark.parametrize(
    ("values", "intent", "demonstrations"),
    [
        ({}, True, True),
        ({"stop_after": "evidence"}, False, True),
        ({"stop_after": "evidence", "evidence": {"intent_aware": True}}, True, True),
        ({"stop_after": "evidence", "evidence": {"demonstrations": 0}}, False, False),
        ({"evidence": {"demonstrations": 0}}, True, True),
        ({**QUESTION_ALONE, "evidence": {"intent_aware": True}}, False, True),
        ({"stop_after": "question", "question": {"interpret": "always", "demonstrations": 0}}, False, False),
        ({"evidence": {"demonstrations": 0}, "answer": {"demonstrations": 0}}, True, False),
        ({**NO_DEMONSTRATIONS, "question": {"interpret": "never"}}, True, False),
        ({**NO_DEMONSTRATIONS, "question": {"interpret": "always"}}, True, True),
        ({**NO_DEMONSTRATIONS, "question": {"interpret": "always", "demonstrations": 0}}, True, False),
        ({**NO_DEMONSTRATIONS, "alignment": {"answer": "clinician"}}, True, True),
        ({**NO_DEMONSTRATIONS, "alignment": {"answer": "generated", "demonstrations": 0}}, True, False),
    ],
)
def test_a_recipe_knows_what_it_needs(values: dict[str, Any], intent: bool, demonstrations: bool) -> None:
    recipe = TamuRecipe.model_validate(values)
    assert (recipe.needs_intent, recipe.shows_demonstrations) == (intent, demonstrations)


@pytest.mark.parametrize(("votes", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (101, 51)])
def test_a_majority_of_the_votes_is_needed(votes: int, needed: int) -> None:
    settings = EvidenceSettings.model_validate({"votes": votes, "threshold": 1})
    assert settings.needed_votes(votes) == needed


@pytest.mark.parametrize(
    ("minimum", "asked", "needed"), [(None, 3, 2), (None, 5, 3), (2, 3, 1), (4, 3, 1), (4, 7, 2), (4, 9, 4)]
)
def test_a_minimum_of_votes_can_be_reached_by_those_left_to_ask(
    minimum: int | None, asked: int, needed: int
) -> None:
    evidence = {"votes": "3..9", "minimum_votes": minimum}
    assert EvidenceSettings.model_validate(evidence).needed_votes(asked) == needed


@pytest.mark.parametrize(
    ("written", "read", "first", "most"),
    [(7, 7, 7, 7), ("7", 7, 7, 7), ("3..9", "3..9", 3, 9), ("7..7", 7, 7, 7), (" 1..101 ", "1..101", 1, 101)],
)
def test_votes_are_a_number_or_a_range(written: object, read: object, first: int, most: int) -> None:
    evidence = TamuRecipe.model_validate({"evidence": {"votes": written, "threshold": 1}}).evidence
    assert evidence.votes == read
    assert (evidence.first_votes, evidence.most_votes, evidence.adaptive) == (first, most, first < most)


@pytest.mark.parametrize(
    ("votes", "fault"),
    [
        ("9..3", "evidence.votes: the range 9..3 runs backwards; write 3..9"),
        ("0..3", "evidence.votes: votes go from 1 to 101, not 0..3"),
        ("3..102", "evidence.votes: votes go from 1 to 101, not 3..102"),
        ("3-9", "evidence.votes: '3-9' is neither a number of votes, such as 5, nor a range, such as 3..9"),
        ("3..", "evidence.votes: '3..' is neither"),
        (True, "evidence.votes: True is neither"),
        (3.5, "evidence.votes: 3.5 is neither"),
        ([3, 9], "evidence.votes: [3, 9] is neither"),
    ],
)
def test_a_wrong_number_of_votes_says_what_is_right(votes: object, fault: str) -> None:
    assert refused({"evidence": {"votes": votes}}).startswith(fault)


def test_a_range_survives_the_manifest() -> None:
    recipe = make_recipe({"system": "tamu", "evidence": {"votes": "3..9"}}, "mine.yaml")
    assert TamuRecipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_an_override_replaces_its_field_alone() -> None:
    recipe = load_recipe("tamu")
    changed = override(recipe, {"evidence.votes": "3..9", "evidence.threshold": 5}, "tamu")
    assert differing_fields(recipe.model_dump(), changed.model_dump()) == [
        "evidence.threshold",
        "evidence.votes",
    ]
    assert override(recipe, {}, "tamu") is recipe


def test_an_override_that_contradicts_the_recipe_is_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        override(load_recipe("tamu"), {"evidence.votes": "1"}, "tamu")
    assert str(caught.value) == (
        "recipe tamu with evidence.votes = 1: evidence: threshold 3 is above the number of votes 1"
    )


def test_an_override_of_a_kind_puts_the_fields_of_the_other_kind_away() -> None:
    recipe = load_recipe("tamu-ranker")
    changed = override(recipe, {"evidence.cutoff.rule": "threshold"}, "tamu-ranker")
    assert isinstance(changed, TamuRecipe) and changed.evidence.cutoff == FixedThreshold()
    both = {"evidence.cutoff.k": 2, "evidence.cutoff.rule": "top_k"}
    changed = override(recipe, both, "tamu-ranker")
    assert isinstance(changed, TamuRecipe) and changed.evidence.cutoff == TopK(k=2)
    same = override(recipe, {"evidence.cutoff.rule": "share"}, "tamu-ranker")
    assert same == recipe
    with pytest.raises(RecipeError, match=r"'evidence\.cutoff\.share\.shore'; did you mean 'share'"):
        override(recipe, {"evidence.cutoff.shore": 0.2}, "tamu-ranker")


def test_the_recipe_of_all_subtasks_is_the_submitted_system() -> None:
    submitted, task = load_recipe("tamu-submitted"), load_recipe("archehr-2026")
    differing = differing_fields(submitted.model_dump(), task.model_dump())
    assert differing == ["alignment.answer", "question.interpret"]
    evidence, answer = tamu("tamu-submitted").evidence, tamu("tamu-submitted").answer
    assert (evidence.demonstrations, evidence.all_votes, evidence.reflects) == (5, 1, True)
    assert (answer.demonstrations, answer.selection, answer.evidence) == (3, "tiered", "high_recall")


@pytest.mark.parametrize("recipe", ["laptop", "ask"])
@pytest.mark.parametrize("model", ["embedded:qwen2.5-coder-1.5b", "embedded:qwen2.5-coder-0.5b"])
def test_auto_is_one_question_a_sentence_only_with_a_rule_that_was_calibrated_for_the_model(
    recipe: str, model: str
) -> None:
    chosen = override(load_recipe(recipe), {"evidence.reply": "auto"}, recipe)
    settled = override(chosen, settled_reply(chosen, model), recipe).section(EvidenceSettings)
    if recipe == "laptop" and model.endswith("1.5b"):
        assert settled == load_recipe(recipe).section(EvidenceSettings)
    else:
        assert (settled.reply, settled.rule) == ("labels", None)
    assert settled_reply(load_recipe("laptop"), model) == {}
