"""How well sentences of an answer match sentences of a source (heiDS at ArchEHR-QA 2025, appendix).

Three parts, each from 0 to 1: shared words (ROUGE-1, -2, -L), likeness of the letters (rapidfuzz), and
likeness of meaning (cosine of sentence vectors, those below 0 raised to it). The paper takes BLEU and METEOR
into the first and BERTScore for the third; both are left out here, as their weights cannot be had offline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from cases.definitions import Section
from ranking.encoding.vectors import TextVectors
from ranking.measures import ratio
from ranking.prefixes import Floats

PARTS = ("lexical", "fuzzy", "semantic")
"""The last axis of `part_scores`."""

_DIGITS = 4
_EPSILON = 1e-9
_TOKEN = re.compile(r"[a-z0-9]+")
_OF_ROUGE = (0.375, 0.375, 0.25)
"""Weights of ROUGE-1, -2 and -L: the paper's .3, .3 and .2, without BLEU and METEOR made to add up to 1."""


class Weights(Section):
    """Weights of the parts; they add up to 1.

    Attributes:
        lexical: Of shared words and sequences of words.
        fuzzy: Of like spelling.
        semantic: Of like meaning, by sentence vectors.
    """

    lexical: float = Field(0.4, ge=0, le=1)
    fuzzy: float = Field(0.3, ge=0, le=1)
    semantic: float = Field(0.3, ge=0, le=1)

    @model_validator(mode="after")
    def _add_up(self) -> Weights:
        if abs(sum(self.parts) - 1) > _EPSILON:
            raise ValueError(f"weights add up to {sum(self.parts):g}, not to 1")
        return self

    @property
    def parts(self) -> tuple[float, float, float]:
        return self.lexical, self.fuzzy, self.semantic

    def __str__(self) -> str:
        return "/".join(f"{weight:g}" for weight in self.parts)


class _Words(NamedTuple):
    tokens: list[str]
    pairs: Counter[tuple[str, str]]

    @property
    def singles(self) -> Counter[str]:
        return Counter(self.tokens)


def part_scores(answer: Sequence[str], source: Sequence[str], vectors: TextVectors | None) -> Floats:
    """Score every pair of sentences, rounded, so recorded scores lead to the same decisions.

    Returns:
        Shape (answer sentences, source sentences, 3), in the order of `PARTS`.
    """
    scores = np.zeros((len(answer), len(source), len(PARTS)))
    if not scores.size:
        return scores
    wanted = [_words(text) for text in source]
    for row, text in enumerate(answer):
        made = _words(text)
        for column, other in enumerate(wanted):
            scores[row, column, 0] = _lexical(made, other)
            scores[row, column, 1] = fuzzy_score(text, source[column])
    if vectors is not None:
        embedded = vectors.embed([*answer, *source]).vectors.astype(np.float64)
        cosines = embedded[: len(answer)] @ embedded[len(answer) :].T
        scores[..., 2] = np.clip(cosines, 0.0, 1.0)
    return np.round(scores, _DIGITS)


def fuzzy_score(answer: str, source: str) -> float:
    """Mean of rapidfuzz's `ratio` and `partial_ratio`, from 0 to 1."""
    from rapidfuzz.fuzz import partial_ratio, ratio

    return float(ratio(answer, source) + partial_ratio(answer, source)) / 200


def combined(parts: Floats, weights: Weights) -> Floats:
    """One score a pair: the last axis of `part_scores` weighed and summed."""
    total: Floats = parts @ np.array(weights.parts)
    return total


def attributed(scores: Floats, threshold: float) -> NDArray[np.bool_]:
    """Which pairs reach the threshold; one that is met exactly is reached."""
    reached: NDArray[np.bool_] = scores >= threshold - _EPSILON
    return reached


def _words(text: str) -> _Words:
    tokens = _TOKEN.findall(text.lower())
    return _Words(tokens, Counter(pairwise(tokens)))


def _lexical(made: _Words, wanted: _Words) -> float:
    from rapidfuzz.distance import LCSseq

    sizes = len(made.tokens), len(wanted.tokens)
    rouge_1 = ratio(2 * (made.singles & wanted.singles).total(), sum(sizes))
    rouge_2 = ratio(2 * (made.pairs & wanted.pairs).total(), sum(max(size - 1, 0) for size in sizes))
    rouge_l = ratio(2 * LCSseq.similarity(made.tokens, wanted.tokens), sum(sizes))
    return float(np.dot(_OF_ROUGE, (rouge_1, rouge_2, rouge_l)))
