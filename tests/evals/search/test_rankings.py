"""Searches and rerankers, measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ir_measures
import pytest

from evals.search.evaluate import Request, evaluate, write_runs
from evals.search.questions import load_questions
from evals.search.rankings import Rankings, ScoreCache, rerank_all, search_all
from evals.search.report import MAP, NDCG, SearchReport, as_json, render, reranking_table, retrieval_table
from evals.search.retrievers import Retrievers
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.ranker import Ranked
from retrieval.corpus.corpus import Corpus
from storage.errors import InputError
from tests.evals.search.conftest import Backwards


@dataclass
class Counting(Bm25Ranker):
    """Remembers how many passages it was given."""

    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        self.seen.append(len(sentences))
        return super().rank(query, sentences)


def nothing(done: int) -> None:
    """Nobody is told."""


@pytest.fixture
def retrievers(corpus: Path) -> Retrievers:
    return Retrievers(Corpus.open(corpus), Backwards())


@pytest.fixture
async def found(retrievers: Retrievers, claims: Path) -> Rankings:
    return await search_all(retrievers, load_questions([claims]).questions, 20, "hybrid", nothing)


async def test_every_retriever_has_a_row_and_the_later_ones_a_test(found: Rankings) -> None:
    table = retrieval_table(found, 20)
    assert list(table.rows) == ["words", "dense", "hybrid"]
    assert table.columns == ("R@10", MAP, NDCG)
    words, dense, _ = (values[NDCG] for values in table.rows.values())
    assert words.p_value is None
    assert dense.p_value is not None
    assert dense.difference is not None
    assert dense.difference.value == pytest.approx(dense.interval.value - words.interval.value)


async def test_figures_of_run_files_by_ir_measures_are_ours(found: Rankings, tmp_path: Path) -> None:
    written = write_runs(tmp_path / "runs", found)
    assert [path.name for path in written] == ["qrels.txt", "words.run", "dense.run", "hybrid.run"]
    reader: Any = ir_measures
    qrels = list(reader.read_trec_qrels(str(written[0])))
    table = retrieval_table(found, 20)
    for path, row in zip(written[1:], table.rows.values(), strict=True):
        run = list(reader.read_trec_run(str(path)))
        theirs = ir_measures.calc_aggregate([ir_measures.nDCG @ 10, ir_measures.R @ 10], qrels, run)
        assert row[NDCG].interval.value == pytest.approx(theirs[ir_measures.nDCG @ 10], abs=1e-9)
        assert row["R@10"].interval.value == pytest.approx(theirs[ir_measures.R @ 10], abs=1e-9)


async def test_a_reranker_scores_each_document_once_for_all_depths(
    found: Rankings, retrievers: Retrievers
) -> None:
    ranker = Counting()
    rerank_all(found, retrievers, ranker, "mine", (1, 5, 12), ScoreCache(), nothing)
    assert ranker.seen == [12, 12, 12, 12]
    first = found.reranked["mine", 1][0]
    assert [one.id for one in first] == [found.retrieved["hybrid"][0][0].id]
    assert {one.id for one in found.reranked["mine", 5][0]} == {
        one.id for one in found.retrieved["hybrid"][0][:5]
    }


async def test_rerankers_are_tested_against_no_reranker(found: Rankings, retrievers: Retrievers) -> None:
    rerank_all(found, retrievers, Bm25Ranker(), "bm25", (5, 20), ScoreCache(), nothing)
    table = reranking_table(found, ["bm25"], (5, 20))
    assert table.columns == ("MAP@10 of 5", "MAP@10 of 20", "nDCG@10 of 5", "nDCG@10 of 20")
    plain, bm25 = table.rows.values()
    assert next(iter(table.rows)) == "no reranker (hybrid)"
    assert plain["MAP@10 of 5"] == plain["MAP@10 of 20"]
    assert bm25["MAP@10 of 20"].interval.value > plain["MAP@10 of 20"].interval.value


async def test_kept_scores_are_not_made_again(
    found: Rankings, retrievers: Retrievers, tmp_path: Path
) -> None:
    path = tmp_path / "scores.sqlite"
    first = Counting()
    cache = ScoreCache(path)
    rerank_all(found, retrievers, first, "mine", (5,), cache, nothing)
    cache.close()
    kept = found.reranked["mine", 5]
    second = Counting()
    cache = ScoreCache(path)
    rerank_all(found, retrievers, second, "mine", (5,), cache, nothing)
    cache.close()
    assert (len(first.seen), second.seen) == (4, [])
    assert found.reranked["mine", 5] == kept


@pytest.mark.parametrize("content", ["My notes\n", "My notes", '{"key": 1}\n', "[]\n"])
def test_a_file_of_something_else_is_no_cache_and_stays(tmp_path: Path, content: str) -> None:
    (tmp_path / "notes.txt").write_text(content)
    with pytest.raises(InputError, match="holds no scores of rerankers"):
        ScoreCache(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == content


class Silent:
    """Shows nothing."""

    def __init__(self, what: str, total: int) -> None:
        self.what = what

    def advance(self, done: int) -> None:
        """Nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing."""


async def reported(corpus: Path, claims: Path, *rerankers: str) -> SearchReport:
    return await evaluate(Request((claims,), corpus, rerankers=rerankers, depths=(5, 10)), Silent)


async def test_a_report_counts_what_nobody_can_find(corpus: Path, claims: Path) -> None:
    report = await reported(corpus, claims)
    assert (report.questions, report.unjudged, report.relevant, report.missing) == (4, 1, 6, 2)
    assert [table.name for table in report.tables] == ["retrieval"]


async def test_a_page_has_both_tables_with_their_pictures(corpus: Path, claims: Path) -> None:
    report = await reported(corpus, claims, "bm25")
    page = render(report)
    assert page.count("<svg") == 2
    assert "no reranker (words)" in page
    object_ = json.loads(json.dumps(as_json(report)))
    assert [row["name"] for row in object_["tables"]["reranking"]] == ["no reranker (words)", "bm25"]


async def test_one_depth_has_no_picture_of_depths(corpus: Path, claims: Path) -> None:
    report = await evaluate(Request((claims,), corpus, rerankers=("bm25",), depths=(5,)), Silent)
    assert render(report).count("<svg") == 1


async def test_runs_in_a_folder_that_cannot_be_are_refused(found: Rankings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/runs: cannot be written: Not a directory"):
        write_runs(tmp_path / "file" / "runs", found)


async def test_a_retriever_that_needs_an_index_is_refused_without_one(
    corpus: Path, retrievers: Retrievers
) -> None:
    assert retrievers.chosen("words") == "words"
    assert (retrievers.chosen(None), Retrievers.open(corpus, None).chosen(None)) == ("hybrid", "words")
    with pytest.raises(InputError, match="dense needs an index of vectors"):
        Retrievers.open(corpus, None).chosen("dense")


async def test_rerankers_that_say_how_much_they_learned_make_a_curve(corpus: Path, claims: Path) -> None:
    report = await reported(corpus, claims, "bm25", "similarity", "logistic")
    assert "bm25" not in report.trained_on
    one = replace(report, trained_on={"bm25": 10})
    two = replace(report, trained_on={"bm25": 10, "similarity": 20, "logistic": 10})
    equal = replace(report, trained_on={"bm25": 10, "similarity": 10})
    assert [render(its).count("<svg") for its in (report, one, two, equal)] == [2, 2, 3, 2]
    assert "questions learned from" in render(two)
