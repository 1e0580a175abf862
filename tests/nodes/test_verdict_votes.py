from __future__ import annotations

import math

import pytest

from nodes.reading.aggregate_verdict import AGGREGATE_VERDICT
from nodes.reading.verdict_votes import count_readings, is_tied, majority, measure_disagreement, weigh
from nodes.retrieval.document_records import Reading
from tests.nodes.literature_builders import read_as


@pytest.mark.parametrize(
    ("letters", "two", "three"),
    [
        ("SSR", "yes", "yes"),
        ("SRN", "no", "yes"),
        ("NNNNS", "yes", "unknown"),
        ("", "no", "unknown"),
        ("NNR", "no", "unknown"),
        ("SSNNRR", "no", "yes"),
        ("RNNR", "no", "unknown"),
        ("---", "no", "unknown"),
        ("RRS-", "no", "no"),
    ],
)
def test_the_majority_follows_the_papers_tie_rules(letters: str, two: str, three: str) -> None:
    votes = weigh(read_as(letters), "count")
    assert (majority(votes, 2), majority(votes, 3)) == (two, three)


def test_counts_are_told_in_words_and_those_of_a_failed_case_are_not() -> None:
    cell = AGGREGATE_VERDICT.columns["readings"].cell
    counts = {"supports": 2, "refutes": 1, "neutral": 0, "missing": 3}
    assert cell({"reading_counts": counts}) == "2 for, 1 against, 0 neither, 3 missing"
    assert cell({"reading_counts": {**counts, "missing": 0}}) == "2 for, 1 against, 0 neither"
    assert cell({"reading_counts": None}) == ""


def test_a_sure_reading_outweighs_two_unsure_ones() -> None:
    passages = [*read_as("S", probability=0.95), *read_as("RR", probability=0.4)]
    assert majority(weigh(passages, "probability"), 3) == "yes"
    assert majority(weigh(passages, "count"), 3) == "no"


def test_a_reading_without_a_probability_weighs_as_one_vote() -> None:
    assert weigh([*read_as("S"), *read_as("R", probability=0.4)], "probability") == {
        "supports": 1.0,
        "neutral": 0.0,
        "refutes": 0.4,
    }


def test_the_last_bits_of_a_sum_make_no_majority() -> None:
    tenths = [*read_as("RRR", probability=0.1), *read_as("S", probability=0.3)]
    assert weigh(tenths, "probability")["refutes"] > 0.3
    assert majority(weigh(tenths, "probability"), 3) == "yes"


def test_passages_that_could_not_be_read_are_missing_and_not_neutral() -> None:
    assert count_readings(read_as("SN--")) == {"supports": 1, "neutral": 1, "refutes": 0, "missing": 2}


@pytest.mark.parametrize(
    ("letters", "entropy", "margin"),
    [("SSSS", 0.0, 1.0), ("SNR", 1.0, 0.0), ("SSRR-", round(math.log(2) / math.log(3), 4), 0.0)],
)
def test_disagreement_is_none_where_all_say_the_same_and_one_at_thirds(
    letters: str, entropy: float, margin: float
) -> None:
    found = measure_disagreement(read_as(letters))
    assert (found["entropy"], found["margin"]) == (entropy, margin)


def test_without_a_reading_there_is_no_disagreement_to_measure() -> None:
    assert measure_disagreement(read_as("--")) == {
        "entropy": None,
        "margin": None,
        "by_year": {},
        "by_strength": {},
    }


def test_readings_are_counted_by_year_and_by_kind_of_study() -> None:
    passages = [
        *read_as("S", year=1998),
        *read_as("RR", year=2018, strength="systematic_review"),
    ]
    found = measure_disagreement([*passages, *read_as("N")])
    assert list(found["by_year"]) == ["1998", "2018", "unknown"]
    assert found["by_year"]["2018"] == {"supports": 0, "neutral": 0, "refutes": 2}
    assert found["by_strength"]["systematic_review"]["refutes"] == 2
    assert found["by_strength"]["unknown"] == {"supports": 1, "neutral": 1, "refutes": 0}


@pytest.mark.parametrize(
    ("supports", "neutral", "refutes", "two", "three"),
    [(1, 0, 1, True, True), (2, 2, 1, False, True), (1, 3, 1, True, False), (0, 0, 0, False, False)],
)
def test_a_tie_is_told_from_a_majority(
    supports: int, neutral: int, refutes: int, two: bool, three: bool
) -> None:
    votes: dict[Reading, float] = {"supports": supports, "neutral": neutral, "refutes": refutes}
    assert (is_tied(votes, 2), is_tied(votes, 3)) == (two, three)
