from __future__ import annotations

import pytest

from cases.question_year import of_recent_years, question_year

IDS = {
    year: f"{seconds:08x}b10a500000000001" for year, seconds in {2015: 1426204800, 2021: 1614556800}.items()
}


@pytest.mark.parametrize(("question_id", "year"), [("55031181" + "0" * 16, 2015), (IDS[2021], 2021)])
def test_the_year_is_that_of_the_object_id(question_id: str, year: int) -> None:
    assert question_year(question_id) == year


@pytest.mark.parametrize("question_id", ["q1", "55031181", "5503118z" + "0" * 16, ""])
def test_an_id_of_another_kind_has_no_year(question_id: str) -> None:
    assert question_year(question_id) is None


def test_recent_questions_are_those_of_the_newest_year_and_some_before() -> None:
    ids = [IDS[2021], "q1", IDS[2015]]
    assert of_recent_years(ids, 3) == [IDS[2021]]
    assert of_recent_years(ids, 6) == [IDS[2021], IDS[2015]]


def test_without_any_year_nothing_is_recent() -> None:
    assert of_recent_years(["q1"], 3) == []
