from __future__ import annotations

import numpy as np
import pytest

from ranking.rankers.logistic import FEATURES, sentence_features

SENTENCES = ("One two three.", "One.", "")


def column(name: str, cosines: list[float], bm25: list[float]) -> list[float]:
    features = sentence_features(
        np.array(cosines, dtype=np.float32), np.array(bm25, dtype=np.float32), SENTENCES[: len(cosines)]
    )
    assert features.shape == (len(cosines), len(FEATURES))
    assert np.isfinite(features).all()
    found: list[float] = features[:, FEATURES.index(name)].round(6).tolist()
    return found


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cosine", [0.25, 0.75, 0.25]),
        ("cosine_below_best", [-0.5, 0, -0.5]),
        ("log_cosine_rank", [round(np.log(2), 6), 0, round(np.log(3), 6)]),
        ("bm25", [2, 0, 1]),
        ("bm25_of_best", [1, 0, 0.5]),
        ("position", [0, 0.5, 1]),
        ("position_squared", [0, 0.25, 1]),
        ("log_from_end", [round(np.log(3), 6), round(np.log(2), 6), 0]),
        ("is_first", [1, 0, 0]),
        ("is_last", [0, 0, 1]),
        ("log_words", [round(np.log(4), 6), round(np.log(2), 6), 0]),
    ],
)
def test_a_feature_is_what_its_name_says(name: str, values: list[float]) -> None:
    assert column(name, [0.25, 0.75, 0.25], [2, 0, 1]) == values


def test_without_a_shared_word_nothing_is_divided_by_zero() -> None:
    assert column("bm25_of_best", [0.5, 0.5, 0.5], [0, 0, 0]) == [0, 0, 0]


def test_a_single_sentence_is_first_and_last() -> None:
    assert column("position", [0.5], [1]) == [0]
    assert column("is_first", [0.5], [1]) == column("is_last", [0.5], [1]) == [1]


def test_no_sentence_has_no_features() -> None:
    nothing = np.zeros(0, dtype=np.float32)
    assert sentence_features(nothing, nothing, ()).shape == (0, len(FEATURES))
