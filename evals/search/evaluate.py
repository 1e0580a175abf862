"""From files and folders to a report of search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evals.search.ensembles import Split
from evals.search.questions import JudgedQuestion, Part, load_questions
from evals.search.rankings import Rankings, ScoreCache, rerank_all, search_all
from evals.search.report import SearchReport, ensemble_table, reranking_table, retrieval_table
from evals.search.retrievers import RetrieverName, Retrievers, Scored
from ranking.rankers.load import examples_learned, load_ranker
from storage.errors import InputError
from storage.files import write_atomically

QRELS = "qrels.txt"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Counted(Protocol):
    """Shows how many are done."""

    def advance(self, done: int) -> None:
        """So many."""


Progress = Callable[[str, int], AbstractContextManager[Counted]]
"""Creates a progress bar for each part of the work, from its unit and total."""


@dataclass(frozen=True, slots=True)
class Request:
    """The user's request.

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
    total = len(loaded.questions)
    with closing(ScoreCache(request.cache)) as cache:
        with progress("questions searched for", total) as counted:
            found = await search_all(retrievers, loaded.questions, request.depth, source, counted.advance)
        for name, ranker in rankers.items():
            with progress(f"questions reranked by {name}", total) as counted:
                rerank_all(found, retrievers, ranker, name, request.depths, cache, counted.advance)
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


def write_runs(folder: Path, rankings: Rankings) -> list[Path]:
    """Write `qrels.txt` and one run file a row of the tables in TREC's formats, such as for ir_measures.

    Scores in them are places counted from the end: tools put equal scores in different orders, and some
    round them.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(folder, f"cannot be written: {error.strerror or error}") from error
    runs: dict[str, Sequence[Sequence[Scored]]] = dict(rankings.retrieved.items())
    runs |= {f"{name}-of-{depth}": found for (name, depth), found in rankings.reranked.items()}
    written = [folder / QRELS]
    judged = [f"{one.id} 0 {id_} 1\n" for one in rankings.questions for id_ in one.relevant]
    write_atomically(written[0], ["".join(judged).encode()])
    for name, found in runs.items():
        safe = _UNSAFE.sub("-", name).strip("-")
        written.append(folder / f"{safe}.run")
        write_atomically(written[-1], _run(rankings.questions, found, safe))
    return written


def _run(
    questions: Sequence[JudgedQuestion], found: Sequence[Sequence[Scored]], name: str
) -> Iterator[bytes]:
    for question, ranking in zip(questions, found, strict=True):
        for rank, one in enumerate(ranking, start=1):
            yield f"{question.id} Q0 {one.id} {rank} {len(ranking) - rank + 1} {name}\n".encode()
