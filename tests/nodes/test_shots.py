from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases.errors import InputError
from cases.records import Case, Gold, InvalidCase
from graph.recipe import Recipe, RecipeError
from nodes.answer.shots import can_be_shown, choose_shots
from runs import shots as shots_of_runs
from runs.shots import describe_shots, group_by_type, open_shots
from tests.nodes.biomedical_builders import answered, asking

POOL = [answered(f"s{number}") for number in range(20)]
NODES = ("adopt_snippets", "answer_exactly", "answer_ideally")


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


def recipe(**values: object) -> Recipe:
    return Recipe.model_validate({"system": "bioasq", "documents": {"phase": "b"}, **values})


class FromFile(list[Case | InvalidCase]):
    """Stands in for a file that holds these questions, whichever format it has."""

    def digest(self) -> str:
        return "abc"


def test_a_file_is_read_without_the_questions_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train.json").write_text("{}")
    held = FromFile([answered("a"), answered("q"), asking("bare"), InvalidCase("x", "no body")])
    monkeypatch.setattr(shots_of_runs, "find_cases", lambda paths: held)
    shots = open_shots(recipe(), NODES, tmp_path / "train.json", [asking("q")], "r")
    assert [one.id for one in shots.by_type["yesno"]] == ["a"]
    recorded = describe_shots(shots)
    assert recorded is not None
    assert (recorded.sha256, recorded.count) == ("abc", 1)
    assert recorded.path == str(tmp_path / "train.json")


def test_a_file_with_nothing_to_show_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shots_of_runs, "find_cases", lambda paths: FromFile([asking("bare")]))
    with pytest.raises(InputError, match="none of its questions can be shown"):
        open_shots(recipe(), NODES, tmp_path / "test.json", [], "r")


def test_nothing_is_opened_where_no_shots_are_wanted(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert open_shots(recipe(exact={"shots": 0}), NODES, missing, [], "r").by_type == {}
    with pytest.raises(InputError, match="no such file"):
        open_shots(recipe(), NODES, missing, [], "r")


def test_a_graph_that_shows_none_refuses_a_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="shows no answered questions; leave --shots out"):
        open_shots(Recipe(system="tamu"), ("label_evidence",), tmp_path / "a.json", [], "r")
