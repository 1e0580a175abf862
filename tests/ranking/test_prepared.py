"""Long forms behind clinical acronyms."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.rankers.prepared import (
    Part,
    QueryMode,
    clean_for_retrieval,
    expand_acronyms,
    load_acronyms,
    retrieval_query,
)
from storage.errors import InputError

BOTH = "Patient Narrative: I fell.\nClinician Question: Why?"


@pytest.mark.parametrize(
    ("mode", "patient", "clinician", "text", "parts"),
    [
        ("both", "I fell.", "Why?", BOTH, ("patient", "clinician")),
        ("patient", "I fell.", "Why?", "I fell.", ("patient",)),
        ("clinician", "I fell.", "Why?", "Why?", ("clinician",)),
        ("both", "I fell.", " ", "I fell.", ("patient",)),
        ("both", "", "Why?", "Why?", ("clinician",)),
        ("patient", "", "Why?", "Why?", ("clinician",)),
        ("clinician", "I fell.", "", "I fell.", ("patient",)),
        ("both", "", "", "", ()),
    ],
)
def test_a_query_is_made_of_what_there_is(
    mode: QueryMode, patient: str, clinician: str, text: str, parts: tuple[Part, ...]
) -> None:
    assert retrieval_query(mode, patient, clinician) == (text, parts)


def test_the_parts_are_prepared_and_the_words_between_them_are_not() -> None:
    found = retrieval_query("both", "I FELL", "WHY", str.lower)
    assert found.text == "Patient Narrative: i fell\nClinician Question: why"


def test_braces_of_a_case_are_data() -> None:
    assert retrieval_query("both", "{clinician}", "{0}").text.endswith(": {0}")
    assert "Narrative: {clinician}" in retrieval_query("both", "{clinician}", "{0}").text


TABLE = {"CHF": "congestive heart failure", "MI": "myocardial infarction", "NSTEMI": "a kind of MI"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("CHF.", "CHF (congestive heart failure)."),
        ("no MI/CHF", "no MI (myocardial infarction)/CHF (congestive heart failure)"),
        ("NSTEMI", "NSTEMI (a kind of MI)"),
        ("MIDNIGHT, CHFs, chf, non-MI, MI-like, MI_2", "MIDNIGHT, CHFs, chf, non-MI, MI-like, MI_2"),
        ("CHF (Congestive Heart Failure)", "CHF (Congestive Heart Failure)"),
        ("", ""),
    ],
)
def test_whole_words_alone_are_spelled_out(text: str, expanded: str) -> None:
    assert expand_acronyms(text, TABLE) == expanded


@given(st.lists(st.sampled_from(["CHF", "MI", "pain", "(", ")", " ", "-", "\\1", "NSTEMI"])).map("".join))
def test_a_second_pass_finds_nothing_new_beside_the_acronyms(text: str) -> None:
    table = {"CHF": "congestive heart failure", "MI": "myocardial infarction"}
    once = expand_acronyms(text, table)
    assert expand_acronyms(once, table) == once


def test_an_empty_table_changes_nothing() -> None:
    assert expand_acronyms("CHF", {}) == "CHF"


def test_the_packaged_table_names_common_acronyms_once_each() -> None:
    table = load_acronyms()
    assert len(table) > 120
    assert table["COPD"] == "chronic obstructive pulmonary disease"
    assert not {"MS", "PT", "RA", "PE"} & table.keys()


def test_a_file_extends_the_packaged_table(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("acronyms: {XYZ: a test, CHF: something else}\n")
    table = load_acronyms(path)
    assert (table["XYZ"], table["CHF"]) == ("a test", "something else")
    assert "COPD" in table


def test_a_file_can_replace_the_packaged_table(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("extends: none\nacronyms: {XYZ: a test}\n")
    assert load_acronyms(path) == {"XYZ": "a test"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("CHF: heart failure", "acronyms: Field required"),
        ("acronyms: {NO: nitric oxide}", "with quotes around NO"),
        ("acronyms: {CHF: ''}", "at least 1 character"),
        ("acronyms: [", "is not YAML"),
        ("", "valid dictionary"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        load_acronyms(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_acronyms(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Took  3.5 mg\n of Lasix.", "took 35 mg of lasix"),
        (r"BP\t120/80\r", "bp12080"),
        ('"Chest pain" \u2013 he\u2019s OK', "chest pain hes ok"),
        ("", ""),
        ("血液  检查", "血液 检查"),
        ("---", "---"),
    ],
)
def test_a_text_is_cleaned(text: str, cleaned: str) -> None:
    assert clean_for_retrieval(text) == cleaned


@given(st.text(max_size=30))
def test_what_is_clean_stays(text: str) -> None:
    once = clean_for_retrieval(text)
    assert clean_for_retrieval(once) == once
