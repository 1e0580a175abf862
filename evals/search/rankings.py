"""Every question searched for in every way, and put in order by every reranker."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cases.texts import json_sha256
from evals.search.questions import JudgedQuestion
from evals.search.retrievers import RetrieverName, Retrievers, Scored
from ranking.rankers.ranker import Ranker
from storage.errors import InputError

Report = Callable[[int], None]
Reranked = dict[tuple[str, int], list[list[Scored]]]
"""By reranker and depth, a ranking a question."""


@dataclass(frozen=True, slots=True)
class Rankings:
    """Rankings of all questions, in their order, best document first.

    Attributes:
        retrieved: By retriever.
        source: Whose documents the rerankers were given.
        reranked: Those documents, as deep as it says, in the order of a reranker; the rest behind them is
            left out.
    """

    questions: Sequence[JudgedQuestion]
    retrieved: Mapping[RetrieverName, Sequence[Sequence[Scored]]]
    source: RetrieverName
    reranked: Reranked = field(default_factory=dict)


class ScoreCache:
    """Scores by their inputs: ranker, query and passages; without a file, in memory."""

    def __init__(self, path: Path | None = None) -> None:
        """Open a file, or begin it.

        Raises:
            InputError: The file holds something else, or cannot be written.
        """
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path or ":memory:", isolation_level=None)
            self._database.execute("CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, scores TEXT)")
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                str(path), f"holds no scores of rerankers: {error}", "Choose another file"
            ) from error

    def scores(self, ranker: Ranker, query: str, passages: Sequence[str]) -> list[float]:
        """Scores of every passage, cached or new."""
        key = json_sha256([ranker.identity, query, list(passages)])
        known = self._database.execute("SELECT scores FROM scores WHERE key=?", (key,)).fetchone()
        if known is not None:
            return [float(score) for score in json.loads(known[0])]
        scores = [float(score) for score in ranker.rank(query, passages).scores]
        self._database.execute("INSERT OR REPLACE INTO scores VALUES (?, ?)", (key, json.dumps(scores)))
        return scores

    def close(self) -> None:
        self._database.close()


async def search_all(
    retrievers: Retrievers,
    questions: Sequence[JudgedQuestion],
    depth: int,
    source: RetrieverName,
    report: Report,
) -> Rankings:
    """Search for every question."""
    found: dict[RetrieverName, list[list[Scored]]] = {name: [] for name in retrievers.names}
    for done, question in enumerate(questions, start=1):
        for name, ranking in (await retrievers.search(question.text, depth)).items():
            found[name].append(ranking)
        report(done)
    return Rankings(questions, found, source)


def rerank_all(
    rankings: Rankings,
    retrievers: Retrievers,
    ranker: Ranker,
    name: str,
    depths: Sequence[int],
    cache: ScoreCache,
    report: Report,
) -> None:
    """Put the documents of every question in the order of a reranker, at every depth; each is scored once."""
    rows: dict[int, list[list[Scored]]] = {depth: [] for depth in depths}
    pairs = zip(rankings.questions, rankings.retrieved[rankings.source], strict=True)
    for done, (question, found) in enumerate(pairs, start=1):
        ids = [one.id for one in found[: max(depths)]]
        scores = cache.scores(ranker, question.text, retrievers.passages(ids))
        scored = [Scored(id_, score) for id_, score in zip(ids, scores, strict=True)]
        for depth in depths:
            rows[depth].append(sorted(scored[:depth], key=lambda one: -one.score))
        report(done)
    rankings.reranked.update({(name, depth): of_depth for depth, of_depth in rows.items()})
