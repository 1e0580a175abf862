"""Noise in queries, for tests of robustness and for training against it (Abridge 2025, section 5.2).

The paper names three kinds, without rates: dropped tokens, reordered tokens, and longer queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field

from cases.definitions import Section
from cases.texts import json_sha256
from ranking.examples import Example


class NoiseSettings(Section):
    """How noisy queries get.

    Attributes:
        drop: Probability of each token to be dropped; one is always left.
        reorder: Probability of each token to change places with one of the two after it.
        lengthen: Probability of a query to be joined with the next one of its document; the evidence of both
            is then evidence.
        share: Of the queries that get any noise: 1 to test with, 0.1 to train with as the paper does.
    """

    drop: float = Field(0.1, ge=0, le=1)
    reorder: float = Field(0.1, ge=0, le=1)
    lengthen: float = Field(0.1, ge=0, le=1)
    share: float = Field(1.0, ge=0, le=1)


def add_noise(examples: Sequence[Example], settings: NoiseSettings, seed: int) -> list[Example]:
    """Make queries noisy, the rest of each example as it was.

    What happens to a query depends on seed, document and query alone. Split first: a longer query carries
    the evidence of the next example of its document.

    Raises:
        ValueError: Examples of one document have other sentences.
    """
    following: dict[str, Example] = {}
    noisy: list[Example] = []
    for example in reversed(examples):
        noisy.append(_noisy(example, following.get(example.document_id), settings, seed))
        following[example.document_id] = example
    return noisy[::-1]


def _noisy(example: Example, following: Example | None, settings: NoiseSettings, seed: int) -> Example:
    key = json_sha256([seed, example.document_id, example.query])
    generator = np.random.default_rng(int(key, 16))
    if generator.random() >= settings.share:
        return example
    if generator.random() < settings.lengthen and following is not None:
        example = _joined(example, following)
    tokens = example.query.split()
    changed = _reordered(_dropped(tokens, settings.drop, generator), settings.reorder, generator)
    return example if changed == tokens else replace(example, query=" ".join(changed))


def _joined(example: Example, following: Example) -> Example:
    if example.sentences != following.sentences:
        document = f"document {example.document_id!r}"
        raise ValueError(f"{example.id}: other sentences than those of {following.id}, both of {document}")
    labels = None
    if example.labels is not None and following.labels is not None:
        pairs = zip(example.labels, following.labels, strict=True)
        labels = tuple(own or other for own, other in pairs)
    weak = "weak" in (example.label_source, following.label_source)
    return replace(
        example,
        query=f"{example.query} {following.query}",
        labels=labels,
        label_source="weak" if weak else "gold",
    )


def _dropped(tokens: list[str], rate: float, generator: np.random.Generator) -> list[str]:
    draws = generator.random(len(tokens))
    kept = [token for token, draw in zip(tokens, draws, strict=True) if draw >= rate]
    return kept if kept or not tokens else [tokens[int(draws.argmax())]]


def _reordered(tokens: list[str], rate: float, generator: np.random.Generator) -> list[str]:
    result = list(tokens)
    moved: set[int] = set()
    for position in range(len(result)):
        other = position + int(generator.integers(1, 3))
        swaps = generator.random() < rate and other < len(result)
        if swaps and moved.isdisjoint({position, other}):
            result[position], result[other] = result[other], result[position]
            moved |= {position, other}
    return result
