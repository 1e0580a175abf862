from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.records import Case, Gold, InvalidCase
from graph import document_resources
from graph.bioasq import BioasqRecipe
from graph.document_resources import AnsweredQuestions, group_by_type
from graph.recipe import RecipeError
from graph.resource import Opened, ResourceRequest, open_resources
from graph.system import find_system
from graph.weak_labels import WeakLabelsRecipe
from nodes.answer.question_prompt import ANSWERED_QUESTIONS, can_be_shown, choose_shots
from storage.errors import InputError
from tests.nodes.biomedical_builders import answered, asking

POOL = [answered(f"s{number}") for number in range(20)]


def drawn(*cases: Case, count: int = 3, seed: int = 42, excluded: tuple[str, ...] = ()) -> list[str]:
    return [one.id for one in choose_shots(cases or POOL, asking(), count, seed, excluded)]


def test_a_draw_is_the_same_again_whatever_the_order_of_the_file() -> None:
    assert drawn() == drawn(*reversed(POOL))
    assert len(set(drawn())) == 3
    assert drawn(seed=1) != drawn()


def test_questions_draw_their_own_shots() -> None:
    others = {tuple(one.id for one in choose_shots(POOL, asking(f"q{n}"), 1, 42, ())) for n in range(20)}
    assert len(others) > 5


def test_more_shots_begin_with_the_same() -> None:
    assert drawn(count=5)[:3] == drawn()


def test_neither_the_question_nor_its_words_nor_what_is_held_out_is_drawn() -> None:
    same_words = answered("twin", question="does QUAGGAMAB  lower the count?")
    assert drawn(answered("q"), same_words, answered("held"), excluded=("held",)) == []


@pytest.mark.parametrize(
    ("case", "shown"),
    [
        (answered("a"), True),
        (answered("a", "summary"), True),
        (asking("a", gold=Gold(exact_answer="yes")), False),
        (asking("a", gold=Gold(ideal_answers=("Yes.",))), False),
        (answered("a", snippets=()), False),
        (replace(answered("a"), biomedical=None), False),
        (asking("a", None, gold=answered("a").gold), False),
    ],
)
def test_a_shot_has_all_that_it_shows(case: Case, shown: bool) -> None:
    assert can_be_shown(case) is shown


def test_questions_of_the_run_are_no_shots() -> None:
    cases = [answered("a"), answered("b"), answered("c", "list")]
    found = group_by_type(cases, {"b"})
    assert {type_: [one.id for one in of] for type_, of in found.items()} == {"yesno": ["a"], "list": ["c"]}


def request(place: Path | None = None, running: Iterable[Case] = (), **values: Any) -> ResourceRequest:
    recipe = BioasqRecipe.model_validate({"documents": {"phase": "b"}, **values})
    return ResourceRequest(recipe, "r", {} if place is None else {"demos": place}, running)


async def opened(asked: ResourceRequest) -> Opened:
    (found,) = (await open_resources([AnsweredQuestions()], asked)).values()
    return found


class FromFile(list[Case | InvalidCase]):
    """Stands in for a file that holds these questions, whichever format it has."""

    def digest(self) -> str:
        return "abc"


async def test_a_file_is_read_without_the_questions_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "train.json"
    file.write_text("{}")
    held = FromFile([answered("a"), answered("q"), asking("bare"), InvalidCase("x", "no body")])
    monkeypatch.setattr(document_resources, "find_cases", lambda paths: held)
    found = await opened(request(file, [asking("q")]))
    by_type = found.tools[ANSWERED_QUESTIONS.name]
    assert [one.id for one in by_type["yesno"]] == ["a"]
    assert found.records == {"answered_questions": {"path": str(file), "sha256": "abc", "count": 1}}


async def test_a_file_with_nothing_to_show_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(document_resources, "find_cases", lambda paths: FromFile([asking("bare")]))
    with pytest.raises(InputError, match="none of its questions can be shown"):
        await opened(request(tmp_path / "test.json"))


async def test_nothing_is_opened_where_no_shots_are_wanted(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert await open_resources([AnsweredQuestions()], request(exact={"shots": 0})) == {}
    with pytest.raises(InputError, match="no such file"):
        await opened(request(missing))


@pytest.mark.parametrize("values", [{"exact": {"shots": 0}}, {"documents": {"phase": "a"}}])
async def test_a_recipe_that_shows_none_refuses_a_file(tmp_path: Path, values: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"show no answered questions: set exact\.shots above 0"):
        await opened(request(tmp_path / "a.json", **values))


async def test_a_graph_that_shows_none_refuses_a_file(tmp_path: Path) -> None:
    asked = ResourceRequest(WeakLabelsRecipe(system="weak_labels"), "r", {"demos": tmp_path / "a.json"})
    with pytest.raises(RecipeError, match="uses no demos; leave --demos out"):
        await open_resources(find_system("weak_labels").resources, asked)
