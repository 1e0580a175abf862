"""The seam of models that judge whether a text answers a question with yes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

InputForm = Literal["clean", "released"]
"""How a model is given its two texts.

`clean`: the text is the premise, the question the hypothesis. `released`: one text, `question [SEP] text`, as
in the released code of Vladika and Matthes 2024.
"""

Verdicts = NDArray[np.float64]
"""Probabilities of supports, neutral and refutes, shape (texts, 3); each row sums to 1."""


class Judged(NamedTuple):
    """What a model made of some texts.

    Attributes:
        verdicts: A row for every text.
        cut: Which texts were read only in their beginning, shape (texts,).
    """

    verdicts: Verdicts
    cut: NDArray[np.bool_]


class EntailmentModel(Protocol):
    """A model trained on natural language inference. Safe to use from several threads."""

    @property
    def identity(self) -> str:
        """Name and hash of the weights."""

    def judge(self, question: str, texts: Sequence[str]) -> Judged:
        """Judge every text as an answer to the question."""
