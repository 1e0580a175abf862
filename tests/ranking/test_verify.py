"""Which sentences support which line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ranking.cutoffs import FixedThreshold, TopK
from ranking.errors import RankerError
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.ranker import Ranked
from ranking.verify import verify
from tests.ranking.word_ranker import SourceWordRanker, WordRanker

SOURCE = ["fever since monday", "fever and cough", "knee pain"]


class Logits:
    """Gives these."""

    identity = "logits@1"
    cutoff = FixedThreshold(tau=0.4)

    def __init__(self, *logits: float) -> None:
        self.logits = np.array(logits, dtype=np.float32)

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        return Ranked(self.logits)


def logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


def test_evidence_is_every_sentence_from_the_threshold_on_best_first() -> None:
    (line,) = verify(WordRanker(), ["fever and cough"], SOURCE).lines
    assert line.supported
    assert [one.sentence for one in line.evidence] == [1, 0]
    assert line.evidence[1].probability == 0.5


def test_a_line_without_evidence_gets_none_even_where_the_cutoff_has_a_fallback() -> None:
    (line,) = verify(WordRanker(FixedThreshold(tau=0.4, fallback=True)), ["rash"], SOURCE).lines
    assert (line.supported, line.evidence) == (False, ())


def test_a_probability_at_the_threshold_supports() -> None:
    (line,) = verify(Logits(0.0), ["x"], ["a"], threshold=0.5).lines
    assert line.supported


@pytest.mark.parametrize(("probability", "near"), [(0.39, [0]), (0.21, [0]), (0.19, [])])
def test_a_sentence_near_to_the_threshold_is_named_and_does_not_support(
    probability: float, near: list[int]
) -> None:
    (line,) = verify(Logits(logit(probability)), ["x"], ["a"]).lines
    assert not line.supported
    assert [one.sentence for one in line.evidence] == near


def test_the_threshold_is_the_tuned_one() -> None:
    assert verify(WordRanker(FixedThreshold(tau=0.7)), ["x"], SOURCE).threshold == 0.7


def test_a_ranker_tuned_to_another_rule_takes_the_threshold_of_the_paper() -> None:
    assert verify(WordRanker(TopK(k=3)), ["x"], SOURCE).threshold == 0.4


def test_bm25_has_no_probabilities_so_nothing_is_supported() -> None:
    found = verify(Bm25Ranker(), ["fever today", "rash"], SOURCE)
    assert [(line.supported, len(line.evidence)) for line in found.lines] == [(False, 2), (False, 0)]
    assert {one.probability for one in found.lines[0].evidence} == {None}
    assert found.threshold is None


def test_a_probability_is_refused_for_bm25() -> None:
    with pytest.raises(RankerError, match="bm25 does not return probabilities"):
        verify(Bm25Ranker(), ["fever"], SOURCE, threshold=0.3)


def test_a_ranker_that_can_reads_the_source_once_for_all_lines() -> None:
    ranker = SourceWordRanker()
    found = verify(ranker, ["fever", "knee", "rash"], SOURCE)
    assert ranker.readings == 1
    assert found == verify(WordRanker(), ["fever", "knee", "rash"], SOURCE)


def test_cut_texts_are_counted() -> None:
    found = verify(WordRanker(), ["a " * 200, "b"], ["c " * 200, "d"])
    assert found.cut_sentences == (0,)
    assert [line.cut for line in found.lines] == [True, False]


def test_a_score_that_is_no_number_names_the_line() -> None:
    with pytest.raises(RankerError, match="line 'fever'"):
        verify(Logits(float("nan")), ["fever"], ["a"])
