"""Sentence embeddings in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from weights.loading import LOADING, MAX_CHARACTERS, no_progress_bars, stay_offline
from weights.registry import WeightsError, fingerprint, packaged_embedder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MINILM = "minilm"
"""Name of the packaged default, all-MiniLM-L6-v2 (384 dimensions, Apache-2.0)."""

_TOGETHER = 32


class SentenceEmbedder:
    """Texts to unit vectors. Safe to use from several threads.

    Importing and loading takes about 9 s, so it happens at the first text. 128 short sentences then take
    1.2 s on two cores.
    """

    def __init__(self, name_or_path: str = MINILM) -> None:
        """Find the weights; they are loaded at the first text.

        Raises:
            WeightsError: The package is not installed, or the folder holds no model.
        """
        self.name = name_or_path
        self.folder = packaged_embedder() if name_or_path == MINILM else _local_folder(name_or_path)
        self._model: SentenceTransformer | None = None
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> str:
        """Name and weights, for run manifests: equal identities give equal vectors on one machine."""
        return f"{self.name}@{fingerprint(self.folder)}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts.

        Returns:
            Shape (texts, dimensions), each row of length 1.
        """
        # One by one, a text's vector has the same bits whatever is embedded beside it, and padding
        # costs as much as batches save on a processor (28 notes: 7.0 s together, 8.2 s apart).
        return self._encode(texts, 1)

    def embed_batches(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts together, those of like length beside each other: bits depend on the company.

        Returns:
            Shape (texts, dimensions), each row of length 1.
        """
        return self._encode(texts, _TOGETHER)

    async def aembed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `embed`, in a thread."""
        return await asyncio.to_thread(self.embed, texts)

    def _encode(self, texts: Sequence[str], together: int) -> NDArray[np.float32]:
        model = self._loaded()
        # The model reads a few hundred tokens; tokenising a whole document first would take seconds.
        cut = [text[:MAX_CHARACTERS] for text in texts]
        if not cut:
            return np.zeros((0, model.get_embedding_dimension() or 0), dtype=np.float32)
        with self._lock:
            vectors = model.encode(
                cut,
                batch_size=together,
                normalize_embeddings=True,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return cast("NDArray[np.float32]", vectors.astype(np.float32, copy=False))

    def _loaded(self) -> SentenceTransformer:
        with LOADING:
            if self._model is None:
                stay_offline()
                from sentence_transformers import SentenceTransformer

                with no_progress_bars():
                    self._model = SentenceTransformer(str(self.folder), local_files_only=True)
            return self._model


def _local_folder(path: str) -> Path:
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        raise WeightsError(
            f"no embedder at {path!r}: pass `embedded:{MINILM}`, "
            "or the folder of a sentence-transformers model as `embedded:/path/to/model`"
        )
    return folder.resolve()
