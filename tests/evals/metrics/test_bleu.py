from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from evals.metrics.bleu import Bleu, sentence_bleu, tokenize_13a
from evals.metrics.text_metric import TextPair
from tests.evals.metrics.texts import any_texts

_SACREBLEU = BLEU(smooth_method="none", effective_order=False)


@given(any_texts, any_texts)
def test_it_is_sacrebleu_without_smoothing(prediction: str, reference: str) -> None:
    theirs = _SACREBLEU.sentence_score(prediction, [reference]).score
    assert 100 * sentence_bleu(prediction, reference) == pytest.approx(theirs, rel=1e-9, abs=1e-9)


def test_a_short_prediction_pays_the_brevity_penalty() -> None:
    assert sentence_bleu("a b c d", "a b c d e") == pytest.approx(math.exp(1 - 5 / 4))


def test_a_long_prediction_pays_by_its_precisions_alone() -> None:
    assert sentence_bleu("a b c d e", "a b c d") == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_a_repeated_word_counts_as_often_as_in_the_reference() -> None:
    assert sentence_bleu("a b c d d", "a b c d") == sentence_bleu("a b c d e", "a b c d")


def test_no_shared_4_gram_scores_0() -> None:
    assert sentence_bleu("a b c x d e f", "a b c y d e f") == 0


def test_case_counts() -> None:
    assert sentence_bleu("A b c d", "a b c d") == 0


@pytest.mark.parametrize(("prediction", "reference"), [("", "a"), ("a", ""), ("", ""), (" \n", "a")])
def test_a_text_without_tokens_scores_0(prediction: str, reference: str) -> None:
    assert sentence_bleu(prediction, reference) == 0


def test_pairs_are_scored_in_their_order() -> None:
    pairs = [TextPair("a b c d", "a b c d"), TextPair("x", "a b c d")]
    assert Bleu().score(pairs) == [(1,), (0,)]


_ODD = st.text(alphabet="a1.,-'(&;lt<\n \u00a0\u2028\x1c", max_size=40)


@given(any_texts | _ODD)
def test_word_by_word_it_is_sacrebleu_s_tokenizer(text: str) -> None:
    assert tokenize_13a(text) == Tokenizer13a()(text)
