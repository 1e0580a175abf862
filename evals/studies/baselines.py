"""Rankers that no gradient has touched."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from evals.studies.definition import Baseline
from ranking.bm25 import Bm25Ranker
from ranking.cutoffs import Cutoff, FixedThreshold, TopK
from ranking.examples import Example
from ranking.logistic import fit_logistic
from ranking.ranker import Ranked, Ranker


@dataclass(frozen=True, slots=True)
class _Chance:
    """Scores by a hash of seed and texts."""

    seed: int
    cutoff: Cutoff
    identity: str = "random"

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        digest = hashlib.sha256(repr((self.seed, query, tuple(sentences))).encode()).digest()
        generator = np.random.default_rng(int.from_bytes(digest))
        return Ranked(generator.standard_normal(len(sentences)).astype(np.float32))


@dataclass(frozen=True, slots=True)
class _ByPlace:
    """Scores that grow with the place in the document, or are all the same."""

    identity: str
    slope: float
    cutoff: Cutoff

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        return Ranked((self.slope * np.arange(len(sentences))).astype(np.float32))


def make_baseline(name: Baseline, train: Sequence[Example], seed: int) -> Ranker:
    """A baseline; only `logistic` looks at the training examples.

    Raises:
        RankerError: There is too little to fit on.
        WeightsError: The encoder of `logistic` is not installed.
    """
    match name:
        case "bm25":
            return Bm25Ranker()
        case "logistic":
            return fit_logistic(train)
        case "random":
            return _Chance(seed, own_cutoff("random"))
        case "all":
            return _ByPlace("all", 0.0, own_cutoff("all"))
        case "last-3":
            return _ByPlace("last-3", 1.0, own_cutoff("last-3"))
        case _:
            assert_never(name)


def own_cutoff(name: Baseline) -> Cutoff:
    """The rule that belongs to a baseline whose scores are no probabilities."""
    return FixedThreshold(tau=0.0) if name == "all" else TopK(k=3)
