from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evals.errors import OptimisationError
from evals.optimisation.search import Ended, Search, rungs
from evals.optimisation.space import Choices, Dimension

DIMENSIONS = (
    Dimension("reply", ("labels", "ids")),
    Dimension("demonstrations", (1, 0, 2)),
    Dimension("chosen", ("as given", "draw 1"), lambda chosen: int(chosen["demonstrations"]) > 0),
)
OWN: Choices = {"reply": "labels", "demonstrations": 1, "chosen": "as given"}
SIZE = 2 * (1 + 2 * 2)

Judge = Callable[[Choices, int], float]


def by_demonstrations(choices: Choices, cases: int) -> float:
    return 10.0 * int(choices["demonstrations"]) + 5.0 * (choices["reply"] == "ids")


def searched(folder: Path, trials: int, judge: Judge = by_demonstrations, cases: int = 24) -> list[Ended]:
    search = Search(folder, DIMENSIONS, cases, 1)
    while len(search.ended) < trials:
        attempt = search.begin(OWN)
        if attempt is None:
            break
        for rung in search.rungs:
            if search.is_behind(attempt, rung, judge(attempt.choices, rung)):
                break
        search.end(attempt, tokens=7)
    return search.ended


@pytest.mark.parametrize(
    ("cases", "wanted"), [(4, [4]), (11, [11]), (12, [6, 12]), (25, [6, 12, 25]), (100, [6, 12, 25, 50, 100])]
)
def test_rungs_are_halves(cases: int, wanted: Sequence[int]) -> None:
    assert rungs(cases) == wanted


def test_the_given_recipe_is_first_and_no_candidate_comes_twice(tmp_path: Path) -> None:
    ended = searched(tmp_path, 99)
    assert ended[0].choices == OWN
    assert len({str(sorted(one.choices.items())) for one in ended}) == len(ended) == SIZE


def test_the_best_of_equals_is_the_first(tmp_path: Path) -> None:
    searched(tmp_path, 5, lambda *_: 50.0)
    best = Search(tmp_path, DIMENSIONS, 24, 1).best
    assert best is not None and best.number == 0


def test_what_falls_behind_is_given_up_and_never_the_best(tmp_path: Path) -> None:
    ended = searched(tmp_path, 99)
    given_up = [one for one in ended if one.state == "given up"]
    assert given_up and all(one.cases < 24 for one in given_up)
    assert all(one.cases == 24 for one in ended if one.state == "done")
    best = Search(tmp_path, DIMENSIONS, 24, 1).best
    assert best is not None
    assert best.choices["demonstrations"] == 2 and best.choices["reply"] == "ids"


def test_the_given_recipe_is_never_given_up(tmp_path: Path) -> None:
    ended = searched(tmp_path, 4, lambda choices, _: 0.0 if choices == OWN else 50.0)
    assert ended[0].state == "done"


def test_a_search_that_is_opened_again_draws_the_same(tmp_path: Path) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = searched(tmp_path / "whole", 9)
    for trials in (1, 3, 4, 9):
        # A candidate that was begun and never ended leaves no trace.
        search = Search(tmp_path / "parts", DIMENSIONS, 24, 1)
        attempt = search.begin(OWN)
        assert attempt is not None
        search.is_behind(attempt, 6, 99.0)
        searched(tmp_path / "parts", trials)
    assert searched(tmp_path / "parts", 9) == whole


def test_a_refused_candidate_is_kept_with_its_reason(tmp_path: Path) -> None:
    search = Search(tmp_path, DIMENSIONS, 24, 1)
    attempt = search.begin(OWN)
    assert attempt is not None
    ended = search.end(attempt, refused="it cannot be")
    assert Search(tmp_path, DIMENSIONS, 24, 1).ended == [ended]
    assert (ended.state, ended.score, ended.reason) == ("refused", None, "it cannot be")
    assert search.best is None


def test_a_number_that_was_noted_is_there_again(tmp_path: Path) -> None:
    assert Search(tmp_path, DIMENSIONS, 24, 1).noted("spent") is None
    Search(tmp_path, DIMENSIONS, 24, 1).note("spent", 5)
    assert Search(tmp_path, DIMENSIONS, 24, 1).noted("spent") == 5


def test_a_file_that_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "study.log").write_text("no study\n{}\n")
    with pytest.raises(OptimisationError, match=r"study\.log: cannot be read"):
        Search(tmp_path, DIMENSIONS, 24, 1)
