from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases.biomedical import ExactAnswer, Snippet
from cases.load import find_cases
from cases.records import Case, InvalidCase
from storage.errors import InputError

PLACE = {
    "beginSection": "abstract",
    "endSection": "abstract",
    "offsetInBeginSection": 4,
    "offsetInEndSection": 9,
}
SNIPPET = {"document": "http://www.ncbi.nlm.nih.gov/pubmed/90000001", "text": " mint", **PLACE}
QUESTION = {
    "id": "63b5c8d0b10a500000000001",
    "body": "What\nhelps?",
    "type": "factoid",
    "documents": ["http://www.ncbi.nlm.nih.gov/pubmed/90000001", "90000002"],
    "snippets": [SNIPPET],
    "exact_answer": [["mint", "peppermint"], ["tea"]],
    "ideal_answer": ["Mint helps."],
    "concepts": ["left alone"],
}


def read(folder: Path, *questions: object) -> list[Case | InvalidCase]:
    path = folder / "questions.json"
    path.write_text(json.dumps({"questions": questions}))
    return list(find_cases([path]))


def question(folder: Path, **fields: Any) -> Case:
    (case,) = read(folder, {**QUESTION, **fields})
    assert isinstance(case, Case), case
    return case


def fault(folder: Path, **fields: Any) -> str:
    (case,) = read(folder, {**QUESTION, **fields})
    assert isinstance(case, InvalidCase)
    return case.fault


def test_a_question_of_a_training_set_is_read_whole(tmp_path: Path) -> None:
    case = question(tmp_path)
    assert (case.id, case.question, case.narrative, case.sentences) == (QUESTION["id"], "What helps?", "", ())
    assert case.biomedical is not None
    assert case.biomedical.type == "factoid"
    assert case.biomedical.documents == ("90000001", "90000002")
    assert case.biomedical.snippets == (Snippet("90000001", " mint", "abstract", 4, 9),)
    assert case.gold.exact_answer == (("mint", "peppermint"), ("tea",))
    assert case.gold.ideal_answers == ("Mint helps.",)


def test_a_question_of_a_test_set_has_no_gold(tmp_path: Path) -> None:
    (case,) = read(tmp_path, {"id": "1", "body": "Does it?", "type": "yesno"})
    assert isinstance(case, Case) and case.biomedical is not None
    assert (case.biomedical.documents, case.biomedical.snippets) == ((), ())
    assert (case.gold.exact_answer, case.gold.ideal_answers) == (None, None)


@pytest.mark.parametrize("kind", [None, "", " "])
def test_a_question_without_type_is_a_case_without_exact_answer(tmp_path: Path, kind: object) -> None:
    case = question(tmp_path, type=kind, exact_answer="yes")
    assert case.biomedical is not None and case.biomedical.type is None
    assert case.gold.exact_answer is None


@pytest.mark.parametrize("given", ["YesNo", "yes/no", " yesno "])
def test_a_type_is_read_in_any_spelling(tmp_path: Path, given: str) -> None:
    case = question(tmp_path, type=given, exact_answer="Yes.")
    assert case.biomedical is not None and case.biomedical.type == "yesno"


def test_an_unknown_type_names_the_known_ones_and_the_nearest(tmp_path: Path) -> None:
    told = fault(tmp_path, type="factiod")
    assert (
        "question 1: type: 'factiod' is not one of yesno, factoid, list, summary; did you mean 'factoid'?"
        in told
    )


@pytest.mark.parametrize(
    ("kind", "given", "read_as"),
    [
        ("yesno", "Yes.", "yes"),
        ("yesno", ["no"], "no"),
        ("factoid", "mint", (("mint",),)),
        ("factoid", ["mint", "peppermint"], (("mint", "peppermint"),)),
        ("factoid", [["mint"], ["tea"]], (("mint",), ("tea",))),
        ("list", ["mint", "tea"], (("mint",), ("tea",))),
        ("list", [["mint", " mint "], ["tea"], [], ["tea"]], (("mint",), ("tea",))),
        ("list", [[12]], (("12",),)),
        ("list", [], None),
        ("summary", "", None),
        ("summary", ["left alone"], None),
    ],
)
def test_exact_answers_are_read_in_every_form(
    tmp_path: Path, kind: str, given: object, read_as: ExactAnswer | None
) -> None:
    assert question(tmp_path, type=kind, exact_answer=given).gold.exact_answer == read_as


@pytest.mark.parametrize(
    ("kind", "given"), [("yesno", "maybe"), ("yesno", ["yes", "no"]), ("list", {"a": 1}), ("list", [[None]])]
)
def test_an_exact_answer_of_another_form_is_named(tmp_path: Path, kind: str, given: object) -> None:
    assert "question 1: exact_answer: " in fault(tmp_path, type=kind, exact_answer=given)


@pytest.mark.parametrize("given", ["One.", ["One.", " ", "One."]])
def test_an_ideal_answer_is_a_text_or_a_list(tmp_path: Path, given: object) -> None:
    assert question(tmp_path, ideal_answer=given).gold.ideal_answers == ("One.",)


def test_documents_that_come_twice_count_once(tmp_path: Path) -> None:
    case = question(tmp_path, documents=["90000001", *QUESTION["documents"]])
    assert case.biomedical is not None
    assert case.biomedical.documents == ("90000001", "90000002")


def test_snippets_stay_as_the_file_has_them_for_the_trace_to_tell_of(tmp_path: Path) -> None:
    case = question(tmp_path, snippets=[SNIPPET, SNIPPET, {**SNIPPET, "text": " "}, {"document": "1"}])
    assert case.biomedical is not None
    assert [one.text for one in case.biomedical.snippets] == [" mint", " mint", " ", ""]


@pytest.mark.parametrize(
    "place",
    [
        {"offsetInBeginSection": 9, "offsetInEndSection": 4},
        {"offsetInBeginSection": -1},
        {"endSection": "title"},
        {"offsetInEndSection": None},
    ],
)
def test_offsets_that_no_text_can_have_are_not_recorded(tmp_path: Path, place: dict[str, object]) -> None:
    case = question(tmp_path, snippets=[{**SNIPPET, **place}])
    assert case.biomedical is not None
    assert case.biomedical.snippets == (Snippet("90000001", " mint", "abstract"),)


def test_a_bad_question_does_not_stop_the_others(tmp_path: Path) -> None:
    bad, nameless, good = read(tmp_path, {**QUESTION, "body": " "}, [], {**QUESTION, "id": "2"})
    assert isinstance(bad, InvalidCase) and bad.id == QUESTION["id"] and "question 1: body" in bad.fault
    assert isinstance(nameless, InvalidCase) and nameless.id == "question 2"
    assert isinstance(good, Case)


def test_an_id_that_comes_twice_is_refused(tmp_path: Path) -> None:
    read(tmp_path, QUESTION, QUESTION)
    with pytest.raises(InputError, match="is used twice: by case 2 of this file"):
        find_cases([tmp_path / "questions.json"]).check()


@pytest.mark.parametrize("content", [{"questions": []}, {"questions": {"1": QUESTION}}])
def test_a_file_without_a_list_of_questions_is_refused(tmp_path: Path, content: object) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="BioASQ files are"):
        list(find_cases([path]))


def test_a_file_of_neither_data_set_is_told_of_both(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps([QUESTION]))
    with pytest.raises(InputError, match=r"PubMedQA: .* BioASQ: "):
        list(find_cases([path]))
