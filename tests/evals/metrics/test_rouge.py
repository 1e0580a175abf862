from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer, _lcs_table, _union_lcs

from evals.metrics.rouge import Rouge, rouge, union_lcs_hits
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


_sentences = st.lists(st.sampled_from("abcd"), max_size=12)


@given(_sentences, st.lists(_sentences, max_size=4))
def test_of_several_subsequences_it_takes_those_of_rouge_score(
    wanted: list[str], predicted: list[list[str]]
) -> None:
    once = [list(dict.fromkeys(wanted))]  # no token twice, so that no count is cut off
    assert union_lcs_hits(predicted, once) == len(_union_lcs(once[0], predicted))


@given(_sentences, _sentences)
def test_one_sentence_each_gives_the_length_of_their_subsequence(
    wanted: list[str], predicted: list[str]
) -> None:
    assert union_lcs_hits([predicted], [wanted]) == _lcs_table(wanted, predicted)[-1][-1]


def test_a_token_counts_once_for_each_time_that_both_have_it() -> None:
    assert union_lcs_hits([["a"]], [["a"], ["a"]]) == 1


def test_nothing_has_no_hits() -> None:
    assert union_lcs_hits([], [["a"]]) == union_lcs_hits([["a"], []], []) == 0
