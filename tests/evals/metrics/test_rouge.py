from __future__ import annotations

import pytest
from hypothesis import given
from rouge_score.rouge_scorer import RougeScorer

from evals.metrics.rouge import Rouge, rouge
from evals.metrics.text_metric import TextPair
from tests.evals.metrics.texts import any_texts

_PACKAGE = RougeScorer(list(Rouge().names))


@given(any_texts, any_texts)
def test_it_is_rouge_score_to_the_last_digit(prediction: str, reference: str) -> None:
    theirs = _PACKAGE.score(reference, prediction)
    assert list(rouge(prediction, reference)) == [theirs[name].fmeasure for name in Rouge().names]


def test_lines_are_the_sentences_of_rouge_lsum() -> None:
    scores = rouge("one two\nthree four", "three four\none two")
    assert scores.rouge_lsum == 1
    assert scores.rouge_l == 0.5


@pytest.mark.parametrize(
    ("prediction", "reference"), [("", "a"), ("a", ""), ("", ""), (".", "a"), ("ß", "ß")]
)
def test_a_text_without_ascii_letters_or_digits_scores_0(prediction: str, reference: str) -> None:
    assert rouge(prediction, reference) == (0, 0, 0, 0)


def test_pairs_are_scored_in_their_order() -> None:
    pairs = [TextPair("a b", "a b"), TextPair("a c", "a b")]
    assert Rouge().score(pairs) == [(1, 1, 1, 1), (0.5, 0, 0.5, 0.5)]
