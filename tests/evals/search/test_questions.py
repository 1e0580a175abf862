"""Which documents are relevant to which question, and parts that teach nothing about each other."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from evals.search.questions import JudgedQuestion, Part, load_questions, question_year, questions_of
from storage.errors import InputError
from tests.evals.bioasq.runs import QUESTIONS
from tests.evals.search.conftest import write_lines
from tests.evigraph import write_cases


def test_claims_are_questions_with_what_they_cite(claims: Path) -> None:
    loaded = load_questions([claims])
    assert [(one.id, one.text, one.relevant) for one in loaded.questions][2] == (
        "3",
        "Ginger study",
        ("heparin0",),
    )
    assert (len(loaded.questions), loaded.unjudged) == (4, 1)
    assert [one.id for one in load_questions([claims], limit=2).questions] == ["1", "2"]


def test_questions_of_bioasq_are_relevant_to_their_documents_once(tmp_path: Path) -> None:
    first, *_ = json.loads(QUESTIONS.read_text("utf-8"))["questions"]
    ids = [address.rpartition("/")[2] for address in first["documents"]]
    path = tmp_path / "questions.json"
    path.write_text(json.dumps({"questions": [{**first, "documents": [*first["documents"]] * 2}]}))
    assert load_questions([path]).questions == [JudgedQuestion(first["id"], first["body"], tuple(ids))]


@pytest.mark.parametrize(
    ("line", "words"),
    [(None, r"file\.jsonl: no such file or folder"), ({"case_id": "a", "sentences": 3}, "line 1: sentences")],
)
def test_a_file_that_is_missing_or_faulty_is_named(
    tmp_path: Path, line: dict[str, object] | None, words: str
) -> None:
    path = tmp_path / "file.jsonl"
    if line is not None:
        write_lines(path, [line])
    with pytest.raises(InputError, match=words):
        load_questions([path])


def test_questions_can_be_of_recent_years_alone(tmp_path: Path) -> None:
    ids = {
        2012: "500000000000000000000001",
        2015: "550311810000000000000002",
        2016: "570000000000000000000003",
    }
    lines = [{"id": id_, "claim": str(year), "cited_doc_ids": [1]} for year, id_ in ids.items()]
    path = write_lines(tmp_path / "claims.jsonl", lines)
    assert [one.text for one in load_questions([path], years=1).questions] == ["2015", "2016"]


def test_ids_without_a_year_are_told(claims: Path) -> None:
    with pytest.raises(InputError, match="no question id in it contains a year"):
        load_questions([claims], years=3)


def test_cases_without_relevant_documents_are_no_questions(tmp_path: Path) -> None:
    path = write_cases(tmp_path / "cases.jsonl", 2)
    with pytest.raises(InputError, match="no question in it names a relevant document"):
        load_questions([path])


def test_a_question_that_is_there_twice_is_refused(claims: Path, tmp_path: Path) -> None:
    twice = write_lines(tmp_path / "twice.jsonl", [{"id": 1, "claim": "x", "cited_doc_ids": [1]}] * 2)
    with pytest.raises(InputError, match="line 2: id: '1' is in line 1 too"):
        load_questions([twice])
    with pytest.raises(InputError, match="question '1' is there twice"):
        load_questions([claims, claims])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"id": 1, "claim": " ", "cited_doc_ids": []}, "line 1: claim"),
        ({"id": 1, "claim": "x", "cited_doc_ids": 3}, "line 1: cited_doc_ids"),
    ],
)
def test_a_faulty_claim_is_named(tmp_path: Path, line: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_questions([write_lines(tmp_path / "claims.jsonl", [line])])


IDS = {
    year: f"{seconds:08x}b10a500000000001" for year, seconds in {2015: 1426204800, 2021: 1614556800}.items()
}


@pytest.mark.parametrize(("question_id", "year"), [("55031181" + "0" * 16, 2015), (IDS[2021], 2021)])
def test_the_year_is_that_of_the_object_id(question_id: str, year: int) -> None:
    assert question_year(question_id) == year


@pytest.mark.parametrize("question_id", ["q1", "55031181", "5503118z" + "0" * 16, ""])
def test_an_id_of_another_kind_has_no_year(question_id: str) -> None:
    assert question_year(question_id) is None


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
    with pytest.raises(InputError, match="invalid part"):
        Part.parse(text)


def test_a_part_without_a_question_is_refused() -> None:
    with pytest.raises(InputError, match="part 2/3: it holds none of 1 question"):
        questions_of(questions(1), Part(2, 3))
