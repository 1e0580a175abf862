from __future__ import annotations

from evals.verdicts.scores import Keep, Question, Questions
from evals.verdicts.tables import CITATIONS, TOP_J, TOP_K, YEARS, _cited, _first, _rows, _since, _top
from graph.timeaware import TimeawareRecipe
from nodes.retrieval.document_records import EvidencePassage
from tests.nodes.literature_builders import read_as

PASSAGES: list[EvidencePassage] = [
    {**one, "rank": rank, "year": year, "citations": citations}
    for one, rank, year, citations in zip(
        read_as("SRNSS"),
        (1, 3, 9, 10, 11),
        (1990, 2020, None, 2005, 2021),
        (5, None, 0, 100, 300),
        strict=True,
    )
]


def ids(keep: Keep) -> list[str]:
    return [one["id"] for one in keep(PASSAGES)]


def test_top_k_goes_by_the_rank_of_the_search_and_fills_nothing_up() -> None:
    assert [ids(_top(k)) for k in (1, 5, 10)] == [["1"], ["1", "2"], ["1", "2", "3", "4"]]


def test_top_j_goes_by_the_order_of_reading() -> None:
    assert ids(_first(3)) == ["1", "2", "3"]


def test_years_and_citations_filter_the_best_ten_and_count_the_unknown_as_nothing() -> None:
    assert ids(_since(2005)) == ["2", "4"]
    assert ids(_cited(5)) == ["1", "4"]
    assert ids(_cited(0)) == ["1", "2", "3", "4"]


def test_rows_that_the_run_did_not_read_for_are_left_out() -> None:
    rows = _rows("k = {}", TOP_K, _top, at_most=10)
    assert [name for name, keep in rows if keep is None] == ["k = 15", "k = 20", "k = 50", "k = 100"]


def test_the_grids_are_the_papers() -> None:
    assert (TOP_K, TOP_J) == ((1, 5, 10, 15, 20, 50, 100), (1, 3, 5, 10, 15, 20))
    assert (YEARS[0], YEARS[-1], len(YEARS)) == (2020, 1980, 8)
    assert (CITATIONS[0], CITATIONS[-1], len(CITATIONS)) == (100, 0, 7)


def test_counting_less_changes_the_verdict_and_not_the_readings() -> None:
    recipe = TimeawareRecipe()
    one = Questions((Question("1", "no", tuple(read_as("SRR"))),), (), recipe)
    assert one.vote(one.answered[0], 3) == "no"
    fewer = one.keeping(_first(1))
    assert fewer.vote(fewer.answered[0], 3) == "yes"
    assert len(one.answered[0].passages) == 3
