"""Vectors of sentences, of the packaged encoder or of one in a folder, for rankers that compare meanings."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.encoding.encoders import MINILM, Encoder, encoder_folder, load_encoder
from weights.loading import LOADING, is_long, readable
from weights.registry import WeightsError, fingerprint

PoolingMode = Literal["mean", "cls"]

_POOLING = "1_Pooling/config.json"
_MODULES = "modules.json"
_LIMIT = "sentence_bert_config.json"
_FLAG = "pooling_mode_"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_MAX_POSITIONS = 512


class SentenceEncoding(NamedTuple):
    """What a folder says of its sentence vectors.

    Attributes:
        mode: Mean over the token states, or the state of the first token.
        max_tokens: Longer texts are cut.
    """

    mode: PoolingMode
    max_tokens: int


def read_sentence_encoding(folder: Path) -> SentenceEncoding:
    """Mean over at most 512 tokens, unless the folder's files of sentence-transformers say otherwise.

    Raises:
        WeightsError: A file is damaged, or asks for what is not done here: another way of pooling, or further
            layers behind it.
    """
    for module in _json(folder / _MODULES, []):
        kind = str(module.get("type", "") if isinstance(module, dict) else module).rpartition(".")[2]
        if kind not in _KNOWN_MODULES:
            known = ", ".join(_KNOWN_MODULES)
            raise WeightsError(
                f"{folder / _MODULES}: module {kind!r} is not supported; supported are {known}"
            )
    limit = _fields(folder / _LIMIT).get("max_seq_length")
    most = limit if isinstance(limit, int) and 2 < limit < _MAX_POSITIONS else _MAX_POSITIONS
    return SentenceEncoding(_mode(folder / _POOLING), most)


def _mode(path: Path) -> PoolingMode:
    """Newer files name the mode, older ones have a flag for each."""
    fields = _fields(path)
    named = fields.get("pooling_mode")
    if named is None:
        named = [name for name, on in fields.items() if name.startswith(_FLAG) and on is True]
    modes = [str(named)] if isinstance(named, str) else [str(mode) for mode in named]
    match modes:
        case [] | ["mean"] | ["pooling_mode_mean_tokens"]:
            return "mean"
        case ["cls"] | ["pooling_mode_cls_token"]:
            return "cls"
        case _:
            asked = ", ".join(modes)
            raise WeightsError(f"{path}: pooling {asked} is not supported; supported are mean and cls")


def _fields(path: Path) -> dict[str, Any]:
    found = _json(path, {})
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: is no JSON object")
    return found


def _json(path: Path, missing: Any) -> Any:
    if not path.is_file():
        return missing
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: it is no JSON: {error}") from error


Vectors = NDArray[np.float32]
"""Unit vectors, shape (texts, dimensions)."""

MAX_TOKENS = 256
"""What all-MiniLM-L6-v2 was trained to read of a text."""

_BATCH = 32


class Embedded(NamedTuple):
    """Vectors of some texts, and which of the texts were cut to their beginning."""

    vectors: Vectors
    cut: NDArray[np.bool_]


class TextVectors(Protocol):
    """Texts to unit vectors. Safe to use from several threads."""

    @property
    def identity(self) -> str:
        """Equal identities give comparable vectors."""

    def embed(self, texts: Sequence[str]) -> Embedded:
        """A row for every text."""


class EncoderVectors:
    """Vectors of length 1 from the token states of an encoder. Loaded at the first text."""

    def __init__(self, name: str, folder: Path, encoding: SentenceEncoding) -> None:
        """Name an encoder.

        Args:
            name: Of the encoder, for its identity.
            folder: Of its weights.
            encoding: From token states to a vector.
        """
        self._name = name
        self._folder = folder
        self._encoding = encoding
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, name: str) -> EncoderVectors:
        """The encoder in a folder, with the pooling that its files say.

        Args:
            name: The folder of a transformers or sentence-transformers model.

        Raises:
            WeightsError: The folder holds no encoder, or one whose pooling is not supported.
        """
        folder = encoder_folder(name)
        return cls(folder.name, folder, read_sentence_encoding(folder))

    @cached_property
    def identity(self) -> str:
        """Name, hash of the weights, and what else shapes a vector where it is not the packaged encoder."""
        described = f"{self._name}@{fingerprint(self._folder)}"
        if self._name == MINILM:
            return described
        return f"{described} {self._encoding.mode} {self._encoding.max_tokens}"

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embed in batches of texts of like length; equal texts are embedded once."""
        encoder = self._loaded()
        vectors = np.zeros((len(texts), encoder.hidden_size), dtype=np.float32)
        cut = np.zeros(len(texts), dtype=np.bool_)
        places: dict[str, list[int]] = {}
        for index, text in enumerate(texts):
            places.setdefault(text, []).append(index)
        by_length = sorted(places, key=lambda text: (len(text), text))
        for start in range(0, len(by_length), _BATCH):
            batch = by_length[start : start + _BATCH]
            with self._lock:
                found = _pooled_states(encoder, batch, self._encoding)
            for text, vector, was_cut in zip(batch, found.vectors, found.cut, strict=True):
                vectors[places[text]] = vector
                cut[places[text]] = was_cut
        return Embedded(vectors, cut)

    def _loaded(self) -> Encoder:
        with LOADING:
            if self._encoder is None:
                self._encoder = load_encoder(self._folder)
            return self._encoder


_shared: EncoderVectors | None = None


def shared_vectors() -> EncoderVectors:
    """The one copy in this process of all-MiniLM-L6-v2, with the mean over its token states.

    Raises:
        WeightsError: The package is not installed.
    """
    global _shared
    with LOADING:
        if _shared is None:
            _shared = EncoderVectors(MINILM, encoder_folder(MINILM), SentenceEncoding("mean", MAX_TOKENS))
        return _shared


def _pooled_states(encoder: Encoder, texts: Sequence[str], encoding: SentenceEncoding) -> Embedded:
    import torch

    limit = encoding.max_tokens
    inputs = encoder.tokenizer(
        [readable(text) for text in texts],
        padding=True,
        truncation=True,
        max_length=limit,
        return_tensors="pt",
    )
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    with torch.inference_mode():
        states = encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state
        if encoding.mode == "cls":
            pooled = states[:, 0]
        else:
            weights = mask.unsqueeze(-1).to(states.dtype)
            pooled = (states * weights).sum(1) / weights.sum(1)
        unit = torch.nn.functional.normalize(pooled, dim=1)
    full = mask.sum(1).numpy() == limit
    cut = np.array([bool(at) and _is_cut(encoder, text, limit) for at, text in zip(full, texts, strict=True)])
    return Embedded(unit.numpy(), cut)


def _is_cut(encoder: Encoder, text: str, limit: int) -> bool:
    """Whether a text that fills the limit goes beyond it."""
    tokens = encoder.tokenizer(readable(text), truncation=True, max_length=limit + 1)["input_ids"]
    return is_long(text) or len(tokens) > limit
