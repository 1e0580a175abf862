"""From files and folders to a report of search."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cases.errors import InputError
from evals.search.ensembles import Split
from evals.search.parts import Part
from evals.search.questions import load_questions
from evals.search.rankings import rerank_all, search_all
from evals.search.report import SearchReport, ensemble_table, reranking_table, retrieval_table
from evals.search.retrievers import RetrieverName, Retrievers
from evals.search.run_files import write_runs
from evals.search.score_cache import ScoreCache
from ranking.load import examples_learned, load_ranker


class Counted(Protocol):
    """Shows how many are done."""

    def update(self, done: int) -> None:
        """So many."""


Progress = Callable[[str, int], AbstractContextManager[Counted]]
"""Made anew for each part of the work, from what is counted and how many there are."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Attributes:
        rerankers: By name.
        depths: How many documents they are given, ascending.
        retriever: Whose; None takes the best that there is.
        depth: Documents searched for.
        part: Of the questions.
        tune: Part of those that weights of ensembles are chosen on.
        cache: Scores of rerankers are kept here.
        runs: Rankings are written here.
    """

    questions: tuple[Path, ...]
    corpus: Path
    index: Path | None = None
    rerankers: tuple[str, ...] = ()
    depths: tuple[int, ...] = (10, 100)
    retriever: RetrieverName | None = None
    depth: int = 1000
    part: Part | None = None
    tune: Part | None = None
    limit: int | None = None
    cache: Path | None = None
    runs: Path | None = None


async def evaluate(request: Request, progress: Progress) -> SearchReport:
    """Search, rerank, measure.

    Raises:
        InputError: Questions, corpus, index, cache or the folder of runs.
        RankerError, WeightsError: A reranker.
        CallError: The server of an index does not answer.
    """
    if request.tune is not None and not request.rerankers:
        raise InputError("--tune", "weights are chosen for rerankers", "Name one with --reranker")
    loaded = load_questions(request.questions, part=request.part, limit=request.limit)
    split = None if request.tune is None else Split.of(loaded.questions, request.tune)
    rankers = {name: load_ranker(name) for name in dict.fromkeys(request.rerankers)}
    retrievers = Retrievers.open(request.corpus, request.index)
    source = retrievers.chosen(request.retriever)
    cache = ScoreCache(request.cache)
    total = len(loaded.questions)
    try:
        with progress("questions searched for", total) as counted:
            found = await search_all(retrievers, loaded.questions, request.depth, source, counted.update)
        for name, ranker in rankers.items():
            with progress(f"questions reranked by {name}", total) as counted:
                rerank_all(found, retrievers, ranker, name, request.depths, cache, counted.update)
    finally:
        cache.close()
    if request.runs is not None:
        write_runs(request.runs, found)
    tables = [retrieval_table(found, request.depth)]
    if rankers:
        tables.append(reranking_table(found, list(rankers), request.depths))
    if split is not None:
        tables.append(ensemble_table(found, list(rankers), request.depths, split))
    relevant = sum(len(question.relevant) for question in loaded.questions)
    known = sum(len(retrievers.known(question.relevant)) for question in loaded.questions)
    return SearchReport(
        questions=total,
        part=None if request.part is None else str(request.part),
        unjudged=loaded.unjudged,
        relevant=relevant,
        missing=relevant - known,
        documents=len(retrievers.corpus),
        searched=retrievers.identity,
        source=source,
        depths=request.depths if rankers else (),
        trained_on={name: count for name in rankers if (count := examples_learned(Path(name))) is not None},
        tables=tuple(tables),
    )
