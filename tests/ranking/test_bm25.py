from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.cutoffs import TopK, select
from ranking.rankers.bm25 import Bm25Ranker, bm25_scores

NOTE = ("Heparin was stopped on day 3.", "Platelets fell to 40.", "The infusion of heparin ran for two days.")


def test_the_sentence_with_the_words_of_the_query_comes_first() -> None:
    assert bm25_scores("Why did platelets fall?", NOTE).argmax() == 1


def test_stems_match_and_stop_words_do_not() -> None:
    assert bm25_scores("stopping infusions", NOTE).tolist()[1] == 0
    assert (bm25_scores("stopping infusions", NOTE)[[0, 2]] > 0).all()
    assert not bm25_scores("why was the of to", NOTE).any()


def test_scores_are_those_of_the_definition() -> None:
    # Lucene's BM25, which leaves (k1 + 1) out: stems are "aspirin reduc stroke risk" and so on.
    texts = ["aspirin reduces stroke risk", "stroke risk rises", "vitamin bone health"]
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    lengths = np.array([4, 3])
    expected = idf / (1 + 1.5 * (1 - 0.75 + 0.75 * lengths / (10 / 3)))
    np.testing.assert_allclose(bm25_scores("stroke", texts), [*expected, 0], rtol=1e-5)


@pytest.mark.parametrize("query", ["", "?!", "xylophone", "the", "日本語", "\ud800", "\x00"])
def test_a_query_without_a_known_word_gives_zeros(query: str) -> None:
    assert bm25_scores(query, NOTE).tolist() == [0, 0, 0]


@pytest.mark.parametrize("sentences", [[], [""], ["", ""], ["the", "of a"], ["  ", "\ud800"]])
def test_sentences_without_words_give_zeros(sentences: list[str]) -> None:
    assert bm25_scores("heparin", sentences).tolist() == [0] * len(sentences)


@given(st.text(), st.lists(st.text(), max_size=5))
def test_any_text_gives_a_finite_score_for_every_sentence(query: str, sentences: list[str]) -> None:
    scores = Bm25Ranker().rank(query, sentences).scores
    assert scores.shape == (len(sentences),)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()


def test_the_best_three_are_selected_unless_a_rule_is_given() -> None:
    assert Bm25Ranker().cutoff == TopK(k=3)
    one = Bm25Ranker(TopK(k=1))
    assert select(one.cutoff, one.rank("platelets", NOTE).scores) == [1]
