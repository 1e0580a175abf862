"""Questions in parts that teach nothing about each other."""

from __future__ import annotations

import random

import pytest

from evals.search.questions import JudgedQuestion, Part, questions_of
from storage.errors import InputError


def questions(count: int, shared: int = 1) -> list[JudgedQuestion]:
    """`shared` questions for each document."""
    return [JudgedQuestion(str(n), f"question {n}", (f"d{n // shared}",)) for n in range(count)]


def test_parts_have_every_question_once_and_are_about_equal() -> None:
    all_ = questions(100)
    parts = [questions_of(all_, Part(number, 4)) for number in (1, 2, 3, 4)]
    assert [len(part) for part in parts] == [25, 25, 25, 25]
    assert sorted(one.id for part in parts for one in part) == sorted(one.id for one in all_)


def test_questions_that_share_a_document_stay_together() -> None:
    all_ = questions(90, shared=3)
    first, second = (questions_of(all_, Part(number, 2)) for number in (1, 2))
    assert {one.relevant for one in first}.isdisjoint(one.relevant for one in second)
    assert abs(len(first) - len(second)) <= 3


def test_questions_that_are_linked_by_another_stay_together() -> None:
    chain = [JudgedQuestion(str(n), "", (f"d{n}", f"d{n + 1}")) for n in range(6)]
    loose = [JudgedQuestion(f"x{n}", "", (f"x{n}",)) for n in range(6)]
    parts = [{one.id for one in questions_of([*chain, *loose], Part(n, 2))} for n in (1, 2)]
    assert sum({one.id for one in chain} <= part for part in parts) == 1


def test_a_quarter_is_within_its_half() -> None:
    all_ = questions(100)
    half = {one.id for one in questions_of(all_, Part(1, 2))}
    quarters = [{one.id for one in questions_of(all_, Part(number, 4))} for number in (1, 2)]
    assert quarters[0] | quarters[1] == half


def test_the_order_of_questions_decides_nothing_but_their_order() -> None:
    all_ = questions(50, shared=2)
    other = random.Random(3).sample(all_, len(all_))
    found, again = questions_of(all_, Part(2, 3)), questions_of(other, Part(2, 3))
    assert {one.id for one in found} == {one.id for one in again}
    assert found == [one for one in all_ if one in found]


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2", "٣/٤"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no part"):
        Part.parse(text)


def test_a_part_without_a_question_is_refused() -> None:
    with pytest.raises(InputError, match="part 2/3: it holds none of 1 question"):
        questions_of(questions(1), Part(2, 3))
