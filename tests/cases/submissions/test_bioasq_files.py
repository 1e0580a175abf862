from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.biomedical import Snippet
from cases.submissions.bioasq import BioasqPrediction, looks_like_bioasq, read_answers
from cases.submissions.tasks import BIOASQ
from storage.errors import InputError

SNIPPET = Snippet("1", "mint", "abstract", 4, 8)
WHOLE = BioasqPrediction("q", ("1", "2"), (SNIPPET,), (("mint",), ("tea",)), "Mint helps.")


def test_a_prediction_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    both = {**BIOASQ["bioasq-a"].entry_of(WHOLE), **BIOASQ["bioasq-b"].entry_of(WHOLE)}
    BIOASQ["bioasq-a"].write_entries(path, [both])
    assert read_answers(path) == [WHOLE]


def test_what_is_written_has_no_fault() -> None:
    entry = BIOASQ["bioasq-a"].entry_of(WHOLE)
    assert entry["documents"][0] == "http://www.ncbi.nlm.nih.gov/pubmed/1"
    assert BIOASQ["bioasq-a"].find_faults([entry], {"q": "list"}) == []
    assert BIOASQ["bioasq-b"].find_faults([BIOASQ["bioasq-b"].entry_of(WHOLE)], {"q": "list"}) == []


def test_a_ranking_is_cut_at_ten() -> None:
    long = BioasqPrediction("q", tuple(map(str, range(30))), (SNIPPET,) * 30)
    entry = BIOASQ["bioasq-a"].entry_of(long)
    assert (len(entry["documents"]), len(entry["snippets"])) == (10, 10)


def test_only_the_first_synonym_is_handed_in() -> None:
    entry = BIOASQ["bioasq-b"].entry_of(BioasqPrediction("q", exact_answer=(("mint", "peppermint"),)))
    assert entry == {"id": "q", "exact_answer": [["mint"]]}


def test_addresses_of_both_kinds_and_repeated_ones_are_read() -> None:
    documents = ["https://pubmed.ncbi.nlm.nih.gov/1/", "http://www.ncbi.nlm.nih.gov/pubmed/1", "2"]
    assert BIOASQ["bioasq-a"].prediction_of({"id": "q", "documents": documents}).documents == ("1", "2")


def test_a_missing_part_is_none_and_an_empty_one_is_empty() -> None:
    assert BIOASQ["bioasq-a"].prediction_of({"id": "q"}).documents is None
    assert BIOASQ["bioasq-a"].prediction_of({"id": "q", "documents": []}).documents == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "list of questions"),
        ({"questions": {}}, "list of questions"),
        ({"questions": [{"id": "q", "documents": "1"}]}, "'q': documents: not a list"),
        ({"questions": [{"id": "q"}, {"id": "q"}]}, "'q' is there twice"),
    ],
)
def test_a_file_that_cannot_be_scored_is_one_line(tmp_path: Path, content: object, told: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=told):
        read_answers(path)


@pytest.mark.parametrize(("content", "is_one"), [('\n {"questions"', True), ("[]", False), ("PK", False)])
def test_a_submission_is_told_by_how_it_begins(tmp_path: Path, content: str, is_one: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert looks_like_bioasq(path) is is_one
