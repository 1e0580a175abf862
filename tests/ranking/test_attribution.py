from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rapidfuzz.fuzz import partial_ratio, ratio
from rouge_score.rouge_scorer import RougeScorer

from ranking.attribution import Weights, attributed, combined, fuzzy_score, part_scores
from ranking.encoding.vectors import Embedded

PAIRS = [
    ("The platelet count had fallen to 40.", "Platelet count fell to 40 on day 3."),
    ("Heparin was stopped.", "Heparin was stopped."),
    ("Heparin was stopped.", "Diet was regular"),
    ("", "Diet was regular."),
    ("a", "a a a"),
    ("Größe 5 mg/dL", "größe 5mg dl"),
]


class Chosen:
    """The vector of a text is its number in this list."""

    identity = "chosen"

    def __init__(self, **vectors: Sequence[float]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> Embedded:
        found = np.array([self.vectors[text] for text in texts], dtype=np.float32)
        return Embedded(found, np.zeros(len(texts), dtype=np.bool_))


@pytest.mark.parametrize(("answer", "source"), PAIRS)
def test_the_lexical_part_is_that_of_rouge_score(answer: str, source: str) -> None:
    found = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(source, answer)
    wanted = 0.375 * found["rouge1"].fmeasure + 0.375 * found["rouge2"].fmeasure
    lexical = part_scores([answer], [source], None)[0, 0, 0]
    assert lexical == pytest.approx(wanted + 0.25 * found["rougeL"].fmeasure, abs=5e-5)


@pytest.mark.parametrize(("answer", "source"), PAIRS)
def test_the_fuzzy_part_is_the_mean_of_two_ratios(answer: str, source: str) -> None:
    assert fuzzy_score(answer, source) == (ratio(answer, source) + partial_ratio(answer, source)) / 200


def test_the_semantic_part_is_the_cosine_never_below_zero() -> None:
    vectors = Chosen(a=[1, 0], b=[0.6, 0.8], c=[-1, 0])
    assert part_scores(["a"], ["a", "b", "c"], vectors)[0, :, 2].tolist() == [1, 0.6, 0]


def test_a_sentence_and_itself_score_one_and_without_vectors_less() -> None:
    same = part_scores(["a b"], ["a b"], Chosen(**{"a b": [0, 1]}))
    assert combined(same, Weights()).tolist() == [[1.0]]
    assert combined(part_scores(["a b"], ["a b"], None), Weights()).tolist() == [[0.7]]


@pytest.mark.parametrize(("answer", "source"), [([], ["a"]), (["a"], []), ([], [])])
def test_of_nothing_there_are_no_scores(answer: list[str], source: list[str]) -> None:
    assert part_scores(answer, source, Chosen()).shape == (len(answer), len(source), 3)


def test_a_threshold_that_is_met_exactly_is_reached() -> None:
    # 0.4 * 0.5 + 0.3 * 0.2 + 0.3 * 0.1333 is 0.29999; the sum of 0.1, 0.1 and 0.1 is above 0.3 by rounding.
    parts = np.array([[[0.3, 0.3, 0.3], [0.5, 0.2, 0.1333]]])
    assert attributed(combined(parts, Weights()), 0.3).tolist() == [[True, False]]


@given(
    st.lists(st.tuples(*[st.integers(0, 10_000)] * 3), min_size=1, max_size=20),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_higher_threshold_cites_a_subset(
    parts: list[tuple[int, int, int]], one: float, other: float
) -> None:
    scores = combined(np.array(parts) / 10_000, Weights())
    low, high = sorted((one, other))
    assert not (attributed(scores, high) & ~attributed(scores, low)).any()


def test_weights_add_up_to_one() -> None:
    with pytest.raises(ValidationError, match=r"weights add up to 1\.1, not to 1"):
        Weights(lexical=0.5)
    assert str(Weights(lexical=0.2, fuzzy=0.4, semantic=0.4)) == "0.2/0.4/0.4"
