"""Configuration of a neural evidence model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cases.definitions import Section

Fusion = Literal["early", "mid", "late"]
DocumentContext = Literal["none", "lstm", "transformer"]
Pooling = Literal["cls", "mean"]


class ModelConfig(Section):
    """The architecture; its weights are elsewhere.

    Attributes:
        fusion: Where query and sentence meet (Abridge 2025, section 3): `early` in the backbone, one pair at
            a time; `mid` in one further layer over the cached tokens of both; `late` after the backbone, as
            two vectors.
        encoder: `minilm`, the packaged one, or the folder of a transformers model.
        context: What looks at the sequence of sentence vectors before the head. `none` with `early` is the
            plain cross-encoder (TAMU 2026, section 4.1.1).
        pooling: From tokens to a sentence's vector, where the fusion leaves it open.
        position: Whether the head sees the sentence's position in the document.
        max_query_tokens: Longer queries are truncated, and reported.
        max_sentence_tokens: Longer sentences are cut, and reported.
        dropout: Before the head.
    """

    fusion: Fusion = "early"
    encoder: str = "minilm"
    context: DocumentContext = "none"
    pooling: Pooling = "cls"
    position: bool = False
    max_query_tokens: int = Field(64, ge=4)
    max_sentence_tokens: int = Field(128, ge=4)
    dropout: float = Field(0.1, ge=0, lt=1)
