from __future__ import annotations

from typing import Any

import pytest

from cases.biomedical import QuestionType
from cases.submissions.bioasq import BioasqTask, possible_phases
from cases.submissions.tasks import BIOASQ

URL = "http://www.ncbi.nlm.nih.gov/pubmed/"
SNIPPET = {
    "document": URL + "1",
    "text": "mint",
    "beginSection": "abstract",
    "endSection": "abstract",
    "offsetInBeginSection": 4,
    "offsetInEndSection": 8,
}
FOUND = {"id": "q", "documents": [URL + "1", URL + "2"], "snippets": [SNIPPET]}


def faults(
    task: BioasqTask, kind: QuestionType | None = None, *, of: dict[str, Any] = FOUND, **fields: Any
) -> list[str]:
    """Severity, place and fault of each, of a test set of one question where its type is given."""
    expected = None if kind is None else {"q": kind}
    found = BIOASQ[task].find_faults([{**of, **fields}], expected)
    assert all(fault.remedy for fault in found)
    return [f"{fault.severity} {fault.place}: {fault.fault}" for fault in found]


def answered(kind: QuestionType | None, exact: object, ideal: object = "Mint helps.") -> list[str]:
    return faults("bioasq-b", kind, of={"id": "q", "exact_answer": exact, "ideal_answer": ideal})


def test_a_good_phase_a_has_no_fault() -> None:
    assert faults("bioasq-a", "factoid") == []


@pytest.mark.parametrize(
    ("kind", "exact"),
    [("yesno", "no"), ("factoid", [["mint"]] * 5), ("list", [["mint"]] * 100), ("summary", None)],
)
@pytest.mark.parametrize("task", ["bioasq-a+", "bioasq-b"])
def test_a_good_answer_has_no_fault(kind: QuestionType, exact: object, task: BioasqTask) -> None:
    entry = {"id": "q", "exact_answer": exact, "ideal_answer": "mint " * 200}
    assert faults(task, kind, of=entry) == []


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ([], "penalised documents: none"),
        ([f"{URL}{number}" for number in range(11)], "refused documents: 11 of them"),
        ([URL + "1", URL + "1"], f"penalised documents: '{URL}1' more than once"),
        (["1"], "refused documents: '1': no address of PubMed"),
        (["http://example.org/pubmed/1"], "no address of PubMed"),
        (URL + "1", "refused documents: not a list of addresses"),
    ],
)
def test_faults_of_documents(documents: object, told: str) -> None:
    assert told in faults("bioasq-a", documents=documents, snippets=[])[0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"document": URL + "3"}, "penalised snippets: 1: its document 3 is not among the documents"),
        ({"offsetInBeginSection": 9}, "refused snippets: 1: offsets out of order: 9, 8"),
        ({"offsetInBeginSection": None}, "refused snippets: 1: without offsetInBeginSection"),
        ({"endSection": ""}, "refused snippets: 1: without endSection"),
        ({"offsetInEndSection": 9}, "penalised snippets: 1: offsets 4 to 9 hold 5 characters, its text 4"),
        ({"offsetInBeginSection": -1}, "refused snippets: 1: an offset below 0"),
        ({"offsetInBeginSection": "4"}, "refused snippets: 1: offsetInBeginSection is not a whole number"),
        ({"text": " "}, "refused snippets: 1: its text is empty"),
        ({"document": "1"}, "no address of PubMed"),
        ({"document": 1}, "refused snippets: 1: document is not text"),
        ({"beginSection": 1}, "refused snippets: 1: beginSection is not text"),
    ],
)
def test_faults_of_snippets(change: dict[str, object], told: str) -> None:
    assert told in faults("bioasq-a", snippets=[{**SNIPPET, **change}])[0]


def test_a_snippet_over_two_sections_has_no_length_to_check() -> None:
    snippet = {**SNIPPET, "beginSection": "title"}
    assert faults("bioasq-a", snippets=[snippet]) == []
    (read,) = BIOASQ["bioasq-a"].prediction_of({**FOUND, "snippets": [snippet]}).snippets or ()
    assert (read.section, read.begin, read.end) == ("title", None, None)


@pytest.mark.parametrize(
    ("snippets", "told"),
    [({}, "refused snippets: not a list"), (["mint"], "refused snippets: 1: not an object")],
)
def test_snippets_are_a_list_of_objects(snippets: object, told: str) -> None:
    assert faults("bioasq-a", snippets=snippets or {"1": SNIPPET}) == [told]


def test_eleven_snippets_are_one_too_many() -> None:
    assert faults("bioasq-a", snippets=[SNIPPET] * 11) == ["refused snippets: 11 of them"]


@pytest.mark.parametrize(
    ("kind", "exact", "told"),
    [
        ("yesno", "Yes", "refused exact_answer: 'Yes' is neither yes nor no"),
        ("yesno", [["yes"]], "is neither yes nor no"),
        (None, "maybe", "is neither yes nor no"),
        ("factoid", "mint", "is a text, and a factoid question takes entries"),
        ("factoid", ["mint"], "refused exact_answer: 'mint': no list"),
        ("factoid", [["mint"]] * 6, "refused exact_answer: 6 entries"),
        ("list", [["mint"]] * 101, "refused exact_answer: 101 entries"),
        ("list", [["m" * 101]], "refused exact_answer: an entry of 101 characters"),
        ("list", [["mint"], []], "refused exact_answer: an entry is empty"),
        ("list", [["mint", "tea"]], "penalised exact_answer: 'mint': with synonyms"),
        ("list", None, "penalised exact_answer: missing"),
        ("summary", [["mint"]], "penalised exact_answer: a summary question has no exact answer"),
        ("list", {"mint": 1}, "refused exact_answer: {'mint': 1} is neither a text nor a list"),
    ],
)
def test_faults_of_exact_answers(kind: QuestionType | None, exact: object, told: str) -> None:
    (found,) = answered(kind, exact)
    assert told in found


def test_an_answer_may_be_missing_where_the_type_is_unknown() -> None:
    assert answered(None, None) == []


@pytest.mark.parametrize(
    ("ideal", "told"),
    [
        ("mint " * 201, "refused ideal_answer: 201 words"),
        (["One.", "Two."], "refused ideal_answer: a list"),
        ("", "penalised ideal_answer: missing"),
        (None, "penalised ideal_answer: missing"),
        (7, "refused ideal_answer: not a text"),
    ],
)
def test_faults_of_ideal_answers(ideal: object, told: str) -> None:
    assert answered("yesno", "yes", ideal) == [told]


def test_ids_are_held_against_the_test_set() -> None:
    entries = [FOUND, FOUND, {**FOUND, "id": "other"}, {"documents": []}, "q"]
    found = BIOASQ["bioasq-a"].find_faults(entries, {"q": "list", "missing": "list"})
    assert [(fault.severity, fault.case, fault.fault) for fault in found] == [
        ("refused", None, "no id"),
        ("refused", None, "not an object"),
        ("refused", "q", "2 entries"),
        ("refused", "other", "not a question of the test set"),
        ("penalised", "missing", "missing"),
    ]


def test_a_file_of_no_question_is_refused() -> None:
    assert [fault.severity for fault in BIOASQ["bioasq-b"].find_faults([], None)] == ["refused"]


def test_what_needs_the_test_set_is_named_without_it() -> None:
    assert BIOASQ["bioasq-b"].skipped_checks({}) == []
    assert len(BIOASQ["bioasq-b"].skipped_checks(None)) == 2


def test_answers_may_be_of_two_phases() -> None:
    assert possible_phases([FOUND]) == ("bioasq-a",)
    assert possible_phases([{"id": "q", "ideal_answer": "So."}]) == ("bioasq-a+", "bioasq-b")
