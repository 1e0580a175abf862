"""Tables 1 and 2 of Verma et al. 2025: what retrievers find, and what rerankers make of it by depth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evals.search.ensembles import Split, tuned_ensembles
from evals.search.rankings import Rankings
from evals.search.retrievers import Scored
from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import Floats, Mean
from evals.statistics.sign_flip import swap_test
from ranking.measures import average_precision, ndcg, recall

Measure = Callable[[Sequence[str], Collection[str]], float]

MAP, NDCG = "MAP@10", "nDCG@10"
RECALL_DEPTHS = (10, 100, 1000)
RETRIEVAL: Mapping[str, Measure] = {
    **{f"R@{depth}": partial(recall, depth=depth) for depth in RECALL_DEPTHS},
    MAP: average_precision,
    NDCG: ndcg,
}
RERANKING: Mapping[str, Measure] = {MAP: average_precision, NDCG: ndcg}
NO_RERANKER = "no reranker"
TUNING, TEST = "tuning", "test"


@dataclass(frozen=True, slots=True)
class Value:
    """A mean over questions, and how it differs from the first row's.

    Attributes:
        difference: From the first row; None in it.
        p_value: Of a paired randomisation test against the first row; None in it.
    """

    interval: Interval
    difference: Interval | None = None
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One system; `values` by column. A column that it has no value in is missing."""

    name: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class SearchTable:
    """A table whose later rows are tested against its first."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[SearchRow, ...]


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What was measured, on what.

    Attributes:
        part: Of the questions that were given; None for all.
        unjudged: Questions that were left out, since no document is relevant to them.
        relevant: Relevant documents of all questions together.
        missing: Those of them that the corpus does not hold, so no search finds them.
        depths: Retrieved documents that rerankers were given.
        trained_on: Questions that rerankers learned from, by their names; only of those that say so.
    """

    questions: int
    part: str | None
    unjudged: int
    relevant: int
    missing: int
    documents: int
    searched: str
    source: str
    depths: tuple[int, ...]
    trained_on: Mapping[str, int]
    tables: tuple[SearchTable, ...]


def retrieval_table(rankings: Rankings, depth: int) -> SearchTable:
    """Table 1: recall of what was retrieved; recall deeper than what was searched for is left out."""
    measures = {
        name: measure
        for name, measure in RETRIEVAL.items()
        if not name.startswith("R@") or int(name.removeprefix("R@")) <= depth
    }
    rows: dict[str, Floats] = {
        name: _matrix(rankings, found, measures) for name, found in rankings.retrieved.items()
    }
    return SearchTable(
        "retrieval",
        "Retrieval",
        "R@n: share of the relevant documents among the first n, mean over questions.",
        tuple(measures),
        _rows(rows, tuple(measures)),
    )


def reranking_table(rankings: Rankings, rerankers: Sequence[str], depths: Sequence[int]) -> SearchTable:
    """Table 2: the first ten documents by reranker and by how many retrieved documents it was given."""
    columns = tuple(f"{measure} of {depth:,}" for measure in RERANKING for depth in depths)
    plain = _matrix(rankings, rankings.retrieved[rankings.source], RERANKING)
    rows = {f"{NO_RERANKER} ({rankings.source})": np.repeat(plain, len(depths), axis=1)}
    for name in rerankers:
        by_depth = [_matrix(rankings, rankings.reranked[name, depth], RERANKING) for depth in depths]
        rows[name] = np.concatenate(
            [matrix[:, [place]] for place in range(len(RERANKING)) for matrix in by_depth], axis=1
        )
    return SearchTable(
        "reranking",
        "Reranking",
        "The first ten documents, by how many retrieved documents a reranker was given.",
        columns,
        _rows(rows, columns),
    )


def ensemble_table(
    rankings: Rankings, rerankers: Sequence[str], depths: Sequence[int], split: Split
) -> SearchTable:
    """Rerankers alone and with the retriever, on the questions that chose the weights and on the others."""
    depth = max(depths)
    ensembles = tuned_ensembles(rankings, rerankers, depth, split)
    matrices = {
        f"{NO_RERANKER} ({rankings.source})": _matrix(
            rankings, rankings.retrieved[rankings.source], RERANKING
        )
    }
    for name, ensemble in ensembles.items():
        matrices[name] = _matrix(rankings, rankings.reranked[name, depth], RERANKING)
        matrices[ensemble.name] = _matrix(rankings, ensemble.found, RERANKING)
    values: dict[str, dict[str, Value]] = {name: {} for name in matrices}
    for part, tuning in ((TUNING, True), (TEST, False)):
        columns = tuple(f"{measure} {part}" for measure in RERANKING)
        for row in _rows({name: split.rows(m, tuning=tuning) for name, m in matrices.items()}, columns):
            values[row.name] |= row.values
    tuned = sum(split.tuning)
    return SearchTable(
        "ensemble",
        "Ensembles",
        f"Weights of a reranker and the retriever, chosen by MAP@10 on part {split.part} of the questions"
        f" ({tuned:,}), tested on the other {len(split.tuning) - tuned:,}. {depth:,} documents are ordered.",
        tuple(f"{measure} {part}" for part in (TUNING, TEST) for measure in RERANKING),
        tuple(SearchRow(name, its) for name, its in values.items()),
    )


def _matrix(rankings: Rankings, found: Sequence[Sequence[Scored]], measures: Mapping[str, Measure]) -> Floats:
    """Shape (questions, measures)."""
    pairs = zip(rankings.questions, found, strict=True)
    return np.array(
        [
            [measure([one.id for one in ranking], question.relevant) for measure in measures.values()]
            for question, ranking in pairs
        ],
        dtype=np.float64,
    )


def _rows(matrices: Mapping[str, Floats], columns: Sequence[str]) -> tuple[SearchRow, ...]:
    statistics = [Mean(column) for column in range(len(columns))]
    first = next(iter(matrices.values()))
    rows = []
    for place, (name, matrix) in enumerate(matrices.items()):
        paired = paired_bootstrap(first, matrix, statistics)
        if place == 0:
            values = [Value(one.first) for one in paired]
        else:
            tests = swap_test(first, matrix, statistics)
            values = [Value(one.second, one.difference, p) for one, p in zip(paired, tests, strict=True)]
        rows.append(SearchRow(name, dict(zip(columns, values, strict=True))))
    return tuple(rows)
