from __future__ import annotations

import json
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from cases.load import find_cases
from cases.records import Case
from evals.search.questions import question_year

SAMPLES = Path(str(resources.files("cases").joinpath("samples", "bioasq")))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    found = list(find_cases([SAMPLES / "questions.json"]))
    assert all(isinstance(case, Case) for case in found)
    return [case for case in found if isinstance(case, Case)]


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, str]]:
    """Sections by id."""
    lines = (SAMPLES / "documents.jsonl").read_text("utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return {one["id"]: {"title": one["title"], "abstract": one["text"]} for one in read}


def test_there_are_six_questions_of_each_type(cases: list[Case]) -> None:
    types = Counter(case.biomedical.type for case in cases if case.biomedical)
    assert types == {"yesno": 6, "factoid": 6, "list": 6, "summary": 6}


def test_every_snippet_stands_where_it_says(cases: list[Case], documents: dict[str, dict[str, str]]) -> None:
    for case in cases:
        assert case.biomedical is not None and case.biomedical.snippets
        for snippet in case.biomedical.snippets:
            section = documents[snippet.document][snippet.section]
            assert section[snippet.begin : snippet.end] == snippet.text, case.id


def test_every_document_is_there_and_snippets_are_of_relevant_ones(
    cases: list[Case], documents: dict[str, dict[str, str]]
) -> None:
    for case in cases:
        assert case.biomedical is not None
        relevant = set(case.biomedical.documents)
        assert relevant <= documents.keys()
        assert {snippet.document for snippet in case.biomedical.snippets} <= relevant


def test_every_question_has_its_answers_and_a_year(cases: list[Case]) -> None:
    for case in cases:
        assert case.biomedical is not None
        assert (case.gold.exact_answer is None) == (case.biomedical.type == "summary")
        assert case.gold.ideal_answers
        assert question_year(case.id) in range(2019, 2025)
