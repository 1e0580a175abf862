"""Rankings of labelled examples, cut by any rule, such as those of heiDS's table 1, and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.rankings.scores import EMPTY, RankingScores, score_rows
from ranking.cutoffs import Autocut, AutocutStar, Cutoff, Elbow, Surprise, SurpriseClean, TopK, kept
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.measures import Counts, PrecisionRecallF1, micro
from ranking.prefixes import Floats, Integers, checked_scores, ranking_order
from ranking.rank_file import RankedRow, rank_documents, sentence_ids
from ranking.ranker import Ranker

FLOOR = 3
FLOORS = (1, 2, 3, 5, 8, 10, 15, 20)
"""What the curve of precision and recall goes through."""

_FIXED = (3, 10, 15, 20, 54)

TRUNCATIONS: Mapping[str, Autocut | AutocutStar | Elbow | Surprise | SurpriseClean] = {
    "autocut": Autocut(),
    "autocut*": AutocutStar(),
    "elbow": Elbow(),
    "surprise": Surprise(),
    "surprise clean": SurpriseClean(),
}


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

    def hits(self) -> list[int]:
        """How many of the best are evidence: of the best 0, 1, ..., all."""
        labels = np.asarray(self.example.labels, dtype=np.int64)[self.order]
        return [0, *np.cumsum(labels).tolist()]

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
        report: Called with how many are ranked.

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


def with_floors(
    rankings: Sequence[Ranking], cutoff: Cutoff, floors: Sequence[int]
) -> list[PrecisionRecallF1]:
    """Micro scores of a rule for each number that it keeps at least; every ranking is cut once."""
    lengths = [kept(cutoff, ranking.ranked) if ranking.ranked.size else 0 for ranking in rankings]
    hits = [ranking.hits() for ranking in rankings]
    found = []
    for floor in floors:
        raised = [min(max(length, floor), len(at) - 1) for length, at in zip(lengths, hits, strict=True)]
        counts = [Counts(at[size], size, at[-1]) for size, at in zip(raised, hits, strict=True)]
        found.append(micro(counts, EMPTY))
    return found


def strategies() -> dict[str, Cutoff]:
    """All rows of the table by name: fixed sizes, truncations, truncations with a floor."""
    rows: dict[str, Cutoff] = {f"fixed k = {size}": TopK(k=size) for size in _FIXED}
    rows.update(TRUNCATIONS)
    rows.update({f"{name}, min {FLOOR}": with_floor(name, FLOOR) for name in TRUNCATIONS})
    return rows


def with_floor(name: str, floor: int) -> Cutoff:
    """A truncation that keeps at least so many."""
    return TRUNCATIONS[name].model_copy(update={"minimum": floor})
