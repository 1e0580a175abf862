"""Encoded documents that can be kept: tensors, and the way back from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor


class TensorSource(ABC):
    """An encoded document that consists of tensors."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All of it, by names that `from_tensors` knows."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The way back.

        Raises:
            KeyError: A tensor is missing.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that it takes once it is in use."""


@dataclass(frozen=True, slots=True)
class LateSource(TensorSource):
    """Vectors of sentences, shape (sentences, hidden)."""

    vectors: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """The vectors."""
        return {"vectors": self.vectors}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """From the vectors."""
        return cls(tensors["vectors"])

    @property
    def nbytes(self) -> int:
        """Memory of the vectors."""
        return self.vectors.nbytes


@dataclass(slots=True)
class MidSource(TensorSource):
    """States of all tokens, one sentence after the other and nothing between them.

    Sentences lie with the longest first, so that sentences of similar length are neighbours.

    Attributes:
        states: Shape (tokens, hidden).
        lengths: Tokens of each sentence, in the order in which they lie.
        rows: Which sentence of the document lies there.
        projected: Attention projections of the states, shape (tokens, 3 hidden), once they were needed in
            evaluation mode. They follow from the states and are not stored.
    """

    states: Tensor
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    projected: Tensor | None = field(default=None, compare=False)

    def tensors(self) -> dict[str, Tensor]:
        """States, lengths and rows."""
        layout = {"lengths": torch.tensor(self.lengths), "rows": torch.tensor(self.rows)}
        return {"states": self.states, **layout}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """From states, lengths and rows."""
        lengths, rows = tensors["lengths"].tolist(), tensors["rows"].tolist()
        return cls(tensors["states"], tuple(lengths), tuple(rows))

    @property
    def nbytes(self) -> int:
        """Memory of states and projections."""
        return 4 * self.states.nbytes
