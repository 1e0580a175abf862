"""Vectors of sentences, of the packaged encoder or of one in a folder, for rankers and for collections."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.encoding.encoders import MINILM, encoder_folder
from ranking.encoding.source_cache import Arrays, SourceCache
from weights.loading import LOADING, is_long, loading_model, readable
from weights.registry import WeightsError, fingerprint

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Vectors = NDArray[np.float32]
"""Unit vectors, shape (texts, dimensions)."""

MOST_TOKENS = 512
"""Read of a text by rankers, even where an encoder would read more."""

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

    def embed(self, texts: Sequence[str]) -> Embedded: ...


class EncoderVectors:
    """A model of sentence-transformers, or a transformers encoder with the mean over its token states.

    Importing and loading takes about 9 s, so it happens at the first text. 128 short sentences then take
    1.2 s on two cores.
    """

    def __init__(self, name: str, most_tokens: int | None = MOST_TOKENS) -> None:
        """Find the weights.

        Args:
            name: `minilm`, or the folder of a model.
            most_tokens: Longer texts are cut; None leaves the limit to the model.

        Raises:
            WeightsError: The package is not installed, or the folder holds no model.
        """
        self.folder = encoder_folder(name)
        self._name = name if name == MINILM else self.folder.name
        self._most_tokens = most_tokens
        self._model: SentenceTransformer | None = None
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> str:
        """Name, hash of the weights, and what else shapes a vector where it is not the packaged encoder."""
        described = f"{self._name}@{fingerprint(self.folder)}"
        if self._name == MINILM:
            return described
        longest = _read(self.folder / "sentence_bert_config.json").get("max_seq_length")
        limited = isinstance(longest, int) and 2 < longest < MOST_TOKENS
        return f"{described} {_pooling(self.folder)} {longest if limited else MOST_TOKENS}"

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embed in batches of texts of like length; equal texts are embedded once."""
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        vectors, cut = self.encode(distinct, _BATCH), self._cut(distinct)
        rows = {text: row for row, text in enumerate(distinct)}
        places = np.array([rows[text] for text in texts], dtype=np.intp)
        return Embedded(vectors[places], cut[places])

    def encode(self, texts: Sequence[str], together: int) -> Vectors:
        """Vectors in the order of the texts, so many together: their last bits depend on the company."""
        model = self._loaded()
        vectors = np.zeros((len(texts), model.get_embedding_dimension() or 0), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            with self._lock:
                vectors[start : start + _BATCH] = model.encode(
                    [readable(text) for text in texts[start : start + _BATCH]],
                    batch_size=together,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                )
        return vectors

    def _cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        model = self._loaded()
        limit = model.max_seq_length
        if limit is None or not texts:
            return np.array([is_long(text) for text in texts], dtype=np.bool_)
        with self._lock:
            tokens = model.tokenizer(
                [readable(text) for text in texts], truncation=True, max_length=limit + 1
            )["input_ids"]
        pairs = zip(texts, tokens, strict=True)
        return np.array([is_long(text) or len(ids) > limit for text, ids in pairs], dtype=np.bool_)

    def _loaded(self) -> SentenceTransformer:
        if self._model is None:
            with loading_model(self.folder, "sentence encoder"):
                # Another thread may have loaded it meanwhile.
                if self._model is None:
                    self._model = self._load()
        return self._model

    def _load(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(self.folder), local_files_only=True)
        if self._most_tokens is not None:
            model.max_seq_length = min(model.max_seq_length or self._most_tokens, self._most_tokens)
        return model


_shared: EncoderVectors | None = None


def shared_vectors() -> EncoderVectors:
    """The one copy in this process of all-MiniLM-L6-v2.

    Raises:
        WeightsError: The package is not installed.
    """
    global _shared
    with LOADING:
        if _shared is None:
            _shared = EncoderVectors(MINILM)
        return _shared


_AT_ONCE = 256
_MEMORY_BYTES = 8 * 2**20
"""5,000 sentences of the packaged encoder; a source that is larger is kept until the next one."""


class SourceVectors(SourceCache[Embedded]):
    """Vectors of sources, of each encoded once."""

    def __init__(self, encoder: TextVectors) -> None:
        super().__init__(Embedded._asdict, _unpacked, memory_bytes=_MEMORY_BYTES)
        self._encoder = encoder

    def embed(self, sentences: Sequence[str]) -> Embedded:
        """A row for every sentence of a source."""
        return self.get([self._encoder.identity, *sentences], lambda: self._encode(sentences))

    def _encode(self, sentences: Sequence[str]) -> Embedded:
        """In parts, so that progress can be shown; equal sentences are encoded once."""
        places = {text: row for row, text in enumerate(dict.fromkeys(sentences))}
        distinct = list(places)
        parts = []
        for start in range(0, max(1, len(distinct)), _AT_ONCE):
            parts.append(self._encoder.embed(distinct[start : start + _AT_ONCE]))
            if start + _AT_ONCE < len(distinct):
                self.report(start + _AT_ONCE)
        self.report(len(sentences))
        vectors, cut = (np.concatenate(all_) for all_ in zip(*parts, strict=True))
        rows = [places[text] for text in sentences]
        return Embedded(vectors[rows], cut[rows])


def _unpacked(arrays: Arrays) -> Embedded:
    vectors, cut = arrays["vectors"], arrays["cut"]
    if vectors.ndim != 2 or len(vectors) != len(cut) or not np.isfinite(vectors).all():
        raise ValueError("no vectors of sentences")
    return Embedded(vectors.astype(np.float32, copy=False), cut.astype(np.bool_))


def _pooling(folder: Path) -> str:
    """Newer files name the mode, older ones have a flag for each; without a file it is the mean."""
    flag = "pooling_mode_"
    fields = _read(folder / "1_Pooling" / "config.json")
    named = fields.get("pooling_mode") or [
        name.removeprefix(flag).removesuffix("_tokens").removesuffix("_token")
        for name, on in fields.items()
        if name.startswith(flag) and on is True
    ]
    return named if isinstance(named, str) else "+".join(map(str, named)) or "mean"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: is not a JSON object")
    return found
