from __future__ import annotations

from typing import Any

import pytest

from nodes.reading.filter_documents import filter_found, last_year
from nodes.reading.settings import LiteratureSettings
from tests.nodes.literature_builders import document, found

OLD = document("old", year=1998, citations=100)
NEW = document("new", year=2018, citations=3)
UNDATED = document("undated", year=None, citations=None)
ALL = found(OLD, NEW, UNDATED)


def kept(as_of: int | None = None, **settings: Any) -> list[str]:
    return [one["id"] for one in filter_found(ALL, LiteratureSettings(**settings), as_of).kept]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["old", "new", "undated"]),
        ({"minimum_year": 1998}, ["old", "new"]),
        ({"minimum_year": 2018}, ["new"]),
        ({"minimum_citations": 0}, ["old", "new", "undated"]),
        ({"minimum_citations": 3}, ["old", "new"]),
        ({"minimum_citations": 4}, ["old"]),
        ({"as_of": 2017}, ["old"]),
        ({"as_of": 2018}, ["old", "new"]),
        ({"minimum_year": 1999, "minimum_citations": 4}, []),
    ],
)
def test_limits_are_inclusive_and_what_is_unknown_counts_as_nothing(
    settings: dict[str, Any], expected: list[str]
) -> None:
    assert kept(**settings) == expected


def test_nothing_newer_than_the_question_is_evidence() -> None:
    assert kept(as_of=2010) == ["old"]


@pytest.mark.parametrize(
    ("recipe", "case", "last"), [(2005, 2010, 2005), (2015, 2010, 2010), (None, 2010, None)]
)
def test_the_earlier_of_the_recipes_year_and_the_cases_counts(
    recipe: int | None, case: int, last: int | None
) -> None:
    assert last_year(LiteratureSettings(as_of=recipe), case) == last


def test_every_dropped_document_has_its_reason() -> None:
    settings = LiteratureSettings(minimum_year=2000)
    dropped = filter_found(ALL, settings, None).dropped
    assert [(one.id, one.rank, one.reason) for one in dropped] == [
        ("old", 1, "of 1998, before 2000"),
        ("undated", 3, "year unknown, 2000 is the earliest"),
    ]


def test_a_refill_takes_deeper_ranks_and_never_more_than_k() -> None:
    found_deep = found(OLD, NEW, document("deep", year=2019), document("deeper", year=2020))
    settings = LiteratureSettings(k=2, refill=True, minimum_year=2000)
    assert [one["id"] for one in filter_found(found_deep, settings, None).kept] == ["new", "deep"]


def test_without_a_refill_only_k_documents_are_asked_for() -> None:
    assert LiteratureSettings(k=7).searched == 7
    assert LiteratureSettings(k=7, refill=True, depth=50).searched == 50


def test_a_weaker_or_unknown_kind_of_study_is_dropped() -> None:
    studies = found(
        document("review", "Text.", 2010, 5, "Journal Article", "Meta-Analysis"),
        document("trial", "Text.", 2010, 5, "Randomized Controlled Trial"),
        document("cohort", "Text.", 2010, 5, "Journal Article"),
        document("unknown"),
    )
    filtered = filter_found(studies, LiteratureSettings(minimum_strength="randomised_trial"), None)
    assert [one["id"] for one in filtered.kept] == ["review", "trial"]
    assert [one.reason for one in filtered.dropped] == [
        "kind of study other, weaker than randomised_trial",
        "kind of study unknown, weaker than randomised_trial",
    ]


def test_study_types_are_matched_as_the_corpus_names_them() -> None:
    studies = found(document("trial", "Text.", 2010, 5, "Randomized Controlled Trial"), document("unknown"))
    settings = LiteratureSettings(study_types=("randomized controlled trial",))
    assert [one["id"] for one in filter_found(studies, settings, None).kept] == ["trial"]


def test_a_document_without_an_abstract_is_dropped() -> None:
    filtered = filter_found(found(document("empty", " ")), LiteratureSettings(), None)
    assert [one.reason for one in filtered.dropped] == ["no abstract"]


def test_a_refill_that_looks_less_deep_than_k_is_refused() -> None:
    with pytest.raises(ValueError, match="depth 5 is below k 10"):
        LiteratureSettings(refill=True, depth=5)
