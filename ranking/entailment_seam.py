"""The seam of models that judge whether a text answers a question with yes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Verdicts = NDArray[np.float64]
"""Probabilities of supports, neutral and refutes, shape (texts, 3); each row sums to 1."""


class EntailmentModel(Protocol):
    """A model trained on natural language inference. Safe to use from several threads."""

    @property
    def identity(self) -> str:
        """Name and hash of the weights."""

    def judge(self, question: str, texts: Sequence[str]) -> Verdicts:
        """Judge every text as an answer to the question."""
