from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import _lcs_table, _union_lcs

from evals.metrics.summary_lcs import union_lcs_hits

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
