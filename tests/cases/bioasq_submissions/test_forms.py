from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.bioasq_submissions.files import (
    looks_like_bioasq,
    read_predictions,
    write_entries,
)
from cases.bioasq_submissions.forms import entry_of, prediction_of
from cases.bioasq_submissions.prediction import BioasqPrediction
from cases.bioasq_submissions.validate import find_faults
from cases.biomedical import Snippet
from cases.errors import InputError

SNIPPET = Snippet("1", "mint", "abstract", 4, 8)
WHOLE = BioasqPrediction("q", ("1", "2"), (SNIPPET,), (("mint",), ("tea",)), "Mint helps.")


def test_a_prediction_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_entries(path, [{**entry_of(WHOLE, "bioasq-a"), **entry_of(WHOLE, "bioasq-b")}])
    assert read_predictions(path) == [WHOLE]


def test_what_is_written_has_no_fault() -> None:
    entry = entry_of(WHOLE, "bioasq-a")
    assert entry["documents"][0] == "http://www.ncbi.nlm.nih.gov/pubmed/1"
    assert find_faults([entry], "bioasq-a", {"q": "list"}) == []
    assert find_faults([entry_of(WHOLE, "bioasq-b")], "bioasq-b", {"q": "list"}) == []


def test_a_ranking_is_cut_at_ten() -> None:
    long = BioasqPrediction("q", tuple(map(str, range(30))), (SNIPPET,) * 30)
    entry = entry_of(long, "bioasq-a")
    assert (len(entry["documents"]), len(entry["snippets"])) == (10, 10)


def test_only_the_first_synonym_is_handed_in() -> None:
    entry = entry_of(BioasqPrediction("q", exact_answer=(("mint", "peppermint"),)), "bioasq-b")
    assert entry == {"id": "q", "exact_answer": [["mint"]]}


def test_addresses_of_both_kinds_and_repeated_ones_are_read() -> None:
    documents = ["https://pubmed.ncbi.nlm.nih.gov/1/", "http://www.ncbi.nlm.nih.gov/pubmed/1", "2"]
    assert prediction_of({"id": "q", "documents": documents}).documents == ("1", "2")


def test_a_missing_part_is_none_and_an_empty_one_is_empty() -> None:
    assert prediction_of({"id": "q"}).documents is None
    assert prediction_of({"id": "q", "documents": []}).documents == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "no list of questions"),
        ({"questions": {}}, "no list of questions"),
        ({"questions": [{"id": "q", "documents": "1"}]}, "'q': documents: not a list"),
        ({"questions": [{"id": "q"}, {"id": "q"}]}, "'q' is there twice"),
    ],
)
def test_a_file_that_cannot_be_scored_is_one_line(tmp_path: Path, content: object, told: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=told):
        read_predictions(path)


@pytest.mark.parametrize(("content", "is_one"), [('\n {"questions"', True), ("[]", False), ("PK", False)])
def test_a_submission_is_told_by_how_it_begins(tmp_path: Path, content: str, is_one: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert looks_like_bioasq(path) is is_one
