"""Rankings of labelled examples, cut by any rule and scored with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evals.rankings.scores import EMPTY, RankingScores, score_rows
from evals.scoring.counts import PrecisionRecallF1, count, micro
from ranking.cutoffs import Cutoff, kept
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.prefixes import Floats, Integers, checked_scores, ranking_order
from ranking.rank_file import rank_documents
from ranking.ranked_rows import RankedRow, sentence_ids
from ranking.ranker import Ranker


@dataclass(frozen=True, slots=True)
class Ranking:
    """One example with its scores, sorted once for every rule that cuts them.

    Attributes:
        order: Positions from the best on, shape (sentences,).
        ranked: Scores in this order.
        cut_sentences: Positions of sentences of which only the beginning was read.
        query_cut: Whether only the beginning of the query was.
    """

    example: Example
    order: Integers
    ranked: Floats
    cut_sentences: tuple[int, ...]
    query_cut: bool

    def row(self, cutoff: Cutoff) -> RankedRow:
        """What the rule selects, with what people have labelled."""
        ids = sentence_ids(self.example)
        count = kept(cutoff, self.ranked) if self.ranked.size else 0
        scores = np.empty_like(self.ranked)
        scores[self.order] = self.ranked
        return RankedRow(
            id=self.example.id,
            selected=tuple(ids[place] for place in sorted(self.order[:count].tolist())),
            scores=dict(zip(ids, scores.tolist(), strict=True)),
            cut_sentences=tuple(ids[place] for place in self.cut_sentences),
            query_cut=self.query_cut,
            gold=tuple(id_ for id_, label in zip(ids, self.example.labels or (), strict=True) if label),
            weak=False,
        )


def rank_all(
    ranker: Ranker, examples: Sequence[Example], report: Callable[[int], None] = lambda done: None
) -> list[Ranking]:
    """Rank examples that people have labelled.

    Args:
        ranker: Reads a document once for the queries on it that follow one another, where it can.
        examples: Labelled.
        report: Is told how many are ranked.

    Raises:
        RankerError: A score is no number.
    """
    found = []
    for done, (ranked, example) in enumerate(rank_documents(ranker, examples), start=1):
        try:
            scores = checked_scores(ranked.scores)
        except ValueError as error:
            raise RankerError(f"ranker {ranker.identity}, example {example.id!r}: {error}") from None
        order = ranking_order(scores)
        found.append(Ranking(example, order, scores[order], ranked.cut_sentences, ranked.query_cut))
        report(done)
    return found


def score(rankings: Iterable[Ranking], cutoff: Cutoff) -> RankingScores:
    """Cut and score: strict labels, micro over all sentences and macro over examples."""
    return score_rows(ranking.row(cutoff) for ranking in rankings)


def micro_of(rankings: Iterable[Ranking], cutoff: Cutoff) -> PrecisionRecallF1:
    """Micro scores alone, without intervals."""
    rows = (ranking.row(cutoff) for ranking in rankings)
    return micro([count(set(row.selected), set(row.gold or ())) for row in rows], EMPTY)
