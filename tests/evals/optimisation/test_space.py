from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from evals.errors import OptimisationError
from evals.optimisation.space import Choices, Given, Space, differences, drawn_orders
from graph.recipe import RecipeError, differing_fields, load_recipe, make_recipe, override
from nodes.core.records import ReplyFormName
from nodes.question.interpret_question import QuestionSettings
from retrieval.embeddings import connect_embedder
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from tests.nodes.builders import POOL
from tests.prompts.versions import ONE_MESSAGE

ORDERS = {"draw 1": ["a", "b", "c"], "draw 2": ["c", "a", "b"]}


def space(folder: Path, not_shown: tuple[str, ...] = (), **values: object) -> Space:
    given = Given("mine.yaml", make_recipe({"system": "tamu", **values}, "mine.yaml"))
    variants = {one.prompt.name: [f"Look twice, {one.prompt.name}."] for one in given.instructions()}
    return Space(given, variants, ORDERS, not_shown, folder, 3)


def every(made: Space) -> list[Choices]:
    """All candidates."""
    found: list[Choices] = [{}]
    for one in made.dimensions:
        found = [
            {**chosen, one.name: option} if one.applies(chosen) else chosen
            for chosen in found
            for option in (one.options if one.applies(chosen) else one.options[:1])
        ]
    return found


def options(made: Space, name: str) -> tuple[object, ...]:
    return next(one.options for one in made.dimensions if one.name == name)


def test_forms_of_reply_are_those_of_the_settings(tmp_path: Path) -> None:
    assert {*options(space(tmp_path), "reply"), "auto"} == {*get_args(ReplyFormName)}
    assert options(space(tmp_path, evidence={"reply": "ids"}), "reply")[0] == "ids"


def test_values_that_the_prompts_cannot_ask_for_are_left_out(tmp_path: Path) -> None:
    assert "ids" not in options(space(tmp_path, prompts=ONE_MESSAGE), "reply")


@pytest.mark.parametrize(
    ("evidence", "wanted"),
    [
        ({"minimum_votes": 2}, ("labels", "ids")),
        ({"minimum_votes": 1}, ("labels", "ids", "pointwise")),
        ({"reply": "pointwise", "model_cutoff": {"rule": "top_k", "k": 3}}, ("pointwise",)),
        ({"reply": "pointwise"}, ("pointwise", "labels", "ids")),
        ({"reply": "auto"}, ("auto", "labels", "ids", "pointwise")),
        ({"voters": "both", "ranker_votes": 2, "threshold": 2}, ("labels", "ids", "pointwise")),
    ],
)
def test_every_form_that_is_offered_makes_a_recipe(
    tmp_path: Path, evidence: dict[str, object], wanted: tuple[str, ...]
) -> None:
    made = space(tmp_path, evidence=evidence)
    assert options(made, "reply") == wanted
    for choices in every(made)[::7]:
        made.candidate(choices)
    if "pointwise" in wanted[1:]:
        asked_once = made.candidate({"reply": "pointwise"}).model_dump()["evidence"]
        weight = 2 if evidence.get("voters") == "both" else 0
        assert asked_once["threshold"] == (1 + weight) // 2 + 1


def test_the_given_recipe_is_a_candidate_that_changes_nothing_but_where_it_ends(tmp_path: Path) -> None:
    aligned, asked = {"answer": "generated"}, {"interpret": "always"}
    made = space(tmp_path, alignment=aligned, question=asked, review={"disagreement": 0.2})
    own = made.candidate(made.own)
    before = made.given.loaded.model_dump(mode="json")
    changed = differing_fields(before, own.model_dump(mode="json"))
    assert changed == ["alignment.answer", "question.interpret", "review.disagreement", "stop_after"]
    assert own.section(QuestionSettings).interpret == "missing"
    assert override(made.given.loaded, differences(made.given.loaded, own), "mine.yaml") == own
    assert made.result(made.own, tmp_path) == made.given.loaded


def test_choices_become_values_of_the_recipe(tmp_path: Path) -> None:
    made = space(tmp_path, ("t",), held_out=["x"])
    choices: Choices = {
        **made.own,
        "reply": "ids",
        "reflection": False,
        "demonstrations": 2,
        "chosen": "draw 2",
        "order": "similar_last",
        "instruction of label_evidence": "variant 1",
    }
    recipe = made.result(choices, tmp_path / "prompts")
    assert differing_fields(made.given.loaded.model_dump(), recipe.model_dump()) == [
        *(
            f"evidence.{name}"
            for name in ("demonstrations", "demonstrations_from", "order", "reflection", "reply")
        ),
        *("held_out", "prompts"),
    ]
    evidence = recipe.model_dump()["evidence"]
    assert evidence["demonstrations_from"] == ("c", "a")
    assert recipe.held_out == ("x", "t")
    assert "Look twice, label_evidence." in (tmp_path / "prompts" / "label_evidence.yaml").read_text()
    assert "Look twice" not in (tmp_path / "prompts" / "reflect_on_labels.yaml").read_text()
    assert "reply ids, reflection False" in made.in_words(choices)


def test_what_changes_nothing_is_not_chosen(tmp_path: Path) -> None:
    made = space(tmp_path)
    whole = [choices for choices in every(made) if choices["reply"] != "pointwise"]
    for choices in whole:
        assert ("chosen" in choices) == (0 < int(choices["demonstrations"]) <= 3)
        assert ("order" in choices) == (int(choices["demonstrations"]) > 1)
        assert ("instruction of reflect_on_labels" in choices) == choices["reflection"]
        assert "instruction of label_sentence" not in choices
    # Of five demonstrations no draw has enough; of one the order says nothing.
    by_count = 1 + 3 + 3 * 2 + 3 * 2 + 2
    assert len(whole) == 2 * (2 + 1) * by_count * 2


def test_what_a_form_leaves_no_choice_of_is_not_chosen(tmp_path: Path) -> None:
    made = space(tmp_path)
    asked_once = [choices for choices in every(made) if choices["reply"] == "pointwise"]
    assert [sorted(choices) for choices in asked_once] == [["instruction of label_sentence", "reply"]] * 2
    evidence = made.candidate(asked_once[0]).model_dump()["evidence"]
    assert (evidence["votes"], evidence["demonstrations"], evidence["reflection"]) == (1, 0, False)
    own = space(tmp_path, evidence={"reply": "pointwise"})
    assert sorted(own.own) == ["instruction of label_sentence", "reply"]
    whole: Choices = {"reply": "ids", "reflection": True, "demonstrations": 1, "chosen": "draw 1"}
    evidence = own.candidate(whole).model_dump()["evidence"]
    assert (evidence["demonstrations_from"], evidence["reflection"]) == (("a",), True)


@pytest.mark.parametrize("name", ["heids", "direct", "timeaware", "bioasq", "weak_labels"])
def test_a_system_without_votes_on_evidence_is_refused(name: str) -> None:
    with pytest.raises(
        OptimisationError, match=f"system '{name}' has no stage in which votes label evidence"
    ):
        _ = Given(name, load_recipe(name)).evidence


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"evidence": "ranker"}, "evidence.voters is 'ranker', so no prompt labels evidence"),
        ({"stop_after": "question", "question": {"interpret": "always"}}, "it stops before evidence"),
    ],
)
def test_a_recipe_that_asks_no_model_for_evidence_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(OptimisationError, match=words):
        _ = Given("mine.yaml", make_recipe({"system": "tamu", **values}, "mine.yaml")).evidence


def test_contradicting_values_are_an_error_of_the_recipe(tmp_path: Path) -> None:
    made = space(tmp_path)
    with pytest.raises(RecipeError, match=r"evidence\.order"):
        made.candidate({**made.own, "demonstrations": 2, "order": "sideways"})


async def test_drawn_orders_are_of_labelled_cases_that_are_not_left_out(tmp_path: Path) -> None:
    embedder = connect_embedder("lexical:256")
    await build_pool(tmp_path / "pool", POOL, embedder)
    pool = DemonstrationPool(tmp_path / "pool", embedder)
    every = {one.case_id for one in pool.neighbours()}
    left_out = sorted(every)[:1]
    orders = drawn_orders(pool, left_out, 4, 1)
    assert list(orders) == ["draw 1", "draw 2", "draw 3", "draw 4"]
    assert all(set(ids) <= every - {*left_out} and len(set(ids)) == len(ids) for ids in orders.values())
    assert len({tuple(ids) for ids in orders.values()}) > 1
    assert orders == drawn_orders(pool, left_out, 4, 1) != drawn_orders(pool, left_out, 4, 2)
    assert drawn_orders(pool, every, 2, 1) == {}


def test_without_draws_their_number_and_order_are_still_chosen(tmp_path: Path) -> None:
    made = Space(Given("tamu", load_recipe("tamu")), {}, {}, (), tmp_path, 2)
    assert [one.name for one in made.dimensions if one.applies({**made.own, "demonstrations": 2})] == [
        *("reply", "reflection", "demonstrations", "order")
    ]
    assert options(made, "demonstrations") == (5, 0, 1, 2)
