"""Every question searched for in every way, and put in order by every reranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evals.search.questions import JudgedQuestion
from evals.search.retrievers import RetrieverName, Retrievers, Scored
from evals.search.score_cache import ScoreCache
from ranking.ranker import Ranker

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


async def search_all(
    retrievers: Retrievers,
    questions: Sequence[JudgedQuestion],
    depth: int,
    source: RetrieverName,
    report: Report,
) -> Rankings:
    """Search for every question.

    Args:
        retrievers: What searches.
        questions: What for.
        depth: Documents of each ranking.
        source: Which of the rankings rerankers get.
        report: Told how many questions are done.
    """
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
    """Put the documents of every question in the order of a reranker, at every depth; each is scored once.

    Args:
        rankings: What was retrieved; gets the new rankings.
        retrievers: Know the texts.
        ranker: Scores them; equals stay in the order in which they were retrieved.
        name: Of the ranker.
        depths: How many of the retrieved documents it is given.
        cache: Knows scores from before.
        report: Told how many questions are done.
    """
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
