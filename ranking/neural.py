"""A trained neural model behind the seam of all rankers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ranking.checkpoint import RankerManifest, open_checkpoint
from ranking.cutoffs import Cutoff
from ranking.encoders import Encoder
from ranking.errors import RankerError
from ranking.models.model import EvidenceModel
from ranking.models.tokens import tokenize
from ranking.ranker import Ranked

_IDENTITY_DIGITS = 12


class NeuralRanker:
    """Scores sentences with a checkpoint. Safe to use from several threads; they take turns.

    Attributes:
        manifest: What the checkpoint says about itself.
    """

    def __init__(self, manifest: RankerManifest, model: EvidenceModel[Any], encoder: Encoder) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.manifest = manifest
        self._model = model.to(device).eval()
        self._tokenizer = encoder.tokenizer
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path) -> NeuralRanker:
        """Open a checkpoint.

        Raises:
            RankerError: It is missing, damaged, unfinished or of another version.
        """
        return cls(*open_checkpoint(folder))

    @property
    def identity(self) -> str:
        """Name of the recipe and hash of the weights."""
        return f"{self.manifest.name}@{self.manifest.weights_sha256[:_IDENTITY_DIGITS]}"

    @property
    def cutoff(self) -> Cutoff:
        """As tuned on the held-out examples."""
        return self.manifest.cutoff

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        """Score every sentence for one query."""
        (ranked,) = self.rank_many([query], sentences)
        return ranked

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> list[Ranked]:
        """Score every sentence for several queries; the document is encoded once.

        Raises:
            RankerError: The weights give scores that are not finite.
        """
        if not sentences:
            return [Ranked(np.zeros(0, np.float32)) for _ in queries]
        if not queries:
            return []
        limits = self.manifest.recipe.model
        # A tokenizer, too, is used by one thread at a time: it keeps its truncation inside.
        with self._lock, torch.inference_mode():
            texts = tokenize(self._tokenizer, sentences, limits.max_sentence_tokens)
            asked = tokenize(self._tokenizer, queries, limits.max_query_tokens)
            source = self._model.encode_source(texts.ids)
            scores = self._model.score(source, asked.ids).float().cpu().numpy()
        if not np.isfinite(scores).all():
            raise RankerError(f"{self.identity} gives scores that are not finite: train it anew")
        return [
            Ranked(row, cut_sentences=texts.cut, query_cut=number in asked.cut)
            for number, row in enumerate(scores)
        ]
