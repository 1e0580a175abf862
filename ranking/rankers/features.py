"""What the logistic regression sees of a sentence: meaning, words, place, length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float64]
"""Shape (sentences, features)."""

FEATURES = (
    "cosine",
    "cosine_below_best",
    "log_cosine_rank",
    "bm25",
    "bm25_of_best",
    "position",
    "position_squared",
    "log_from_end",
    "is_first",
    "is_last",
    "log_words",
    "log_words_above_mean",
)
"""Columns, in order. Position runs from 0 to 1."""


def sentence_features(
    cosines: NDArray[np.float32], bm25: NDArray[np.float32], sentences: Sequence[str]
) -> Features:
    """Features of every sentence of one document for one query; cosines and BM25 of shape (sentences,)."""
    count = len(sentences)
    if count == 0:
        return np.zeros((0, len(FEATURES)))
    cosine = cosines.astype(np.float64)
    words = np.array([np.log1p(len(sentence.split())) for sentence in sentences])
    place = np.arange(count)
    position = place / max(1, count - 1)
    # Ties go to the earlier sentence, as in every ranking here.
    rank = np.empty(count)
    rank[np.argsort(-cosine, kind="stable")] = place
    best = float(bm25.max())
    columns = (
        cosine,
        cosine - cosine.max(),
        np.log1p(rank),
        bm25.astype(np.float64),
        bm25.astype(np.float64) / best if best > 0 else np.zeros(count),
        position,
        position**2,
        np.log1p(count - 1 - place),
        place == 0,
        place == count - 1,
        words,
        words - words.mean(),
    )
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
