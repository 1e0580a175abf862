"""A trained neural model behind the protocol of all rankers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ranking.cutoffs import Cutoff, FixedThreshold
from ranking.encoding.device import autocast, choose_placement, resolve_precision
from ranking.encoding.encoders import Encoder
from ranking.encoding.source_cache import Arrays, SourceCache
from ranking.errors import RankerError
from ranking.models.model import EvidenceModel
from ranking.models.tokens import tokenize
from ranking.rankers.checkpoint import RankerManifest, open_checkpoint
from ranking.rankers.ranker import Ranked
from ranking.training.recipe import Precision

_IDENTITY_DIGITS = 12


class _Encoded(NamedTuple):
    """Encoding of a document before any query, and the sentences over the limit."""

    source: Any
    cut: tuple[int, ...]


class NeuralRanker:
    """Scores sentences with a checkpoint. Safe to use from several threads; they take turns.

    Attributes:
        sources: Encoded documents; None where the model knows nothing of a document before a query.
    """

    def __init__(
        self,
        manifest: RankerManifest,
        model: EvidenceModel[Any],
        encoder: Encoder,
        precision: Precision = "float32",
    ) -> None:
        self.manifest = manifest
        self._device = choose_placement().device
        self._model = model.to(self._device).eval()
        self._tokenizer = encoder.tokenizer
        self.sources: SourceCache[_Encoded] | None = None
        if model.source_type is not None:
            self.sources = SourceCache(
                _packed, self._unpacked, size=lambda document: int(document.source.nbytes)
            )
        self._precision = resolve_precision(precision, self._device)
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, precision: Precision = "float32") -> NeuralRanker:
        """Open a checkpoint.

        Args:
            folder: Of the ranker.
            precision: `auto` takes bfloat16 where the processor has instructions for it: 43 pairs a second
                in place of 24 on one thread, and logits that differ by less than 0.01.

        Raises:
            RankerError: It is missing, damaged, unfinished or of another version.
        """
        return cls(*open_checkpoint(folder), precision)

    @property
    def tuned_threshold(self) -> float:
        """The best threshold on the held-out examples, a probability, whatever rule the cut-off is."""
        cutoff = self.manifest.held_out.tuned["threshold"].cutoff
        assert isinstance(cutoff, FixedThreshold)
        return cutoff.tau

    @property
    def identity(self) -> str:
        return f"{self.manifest.name}@{self.manifest.weights_sha256[:_IDENTITY_DIGITS]}"

    @property
    def cutoff(self) -> Cutoff:
        return self.manifest.cutoff

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        (ranked,) = self.rank_many([query], sentences)
        return ranked

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> list[Ranked]:
        """Score every sentence for several queries; the document is encoded once, and kept for the next call.

        Raises:
            RankerError: The weights give scores that are not finite.
        """
        if not sentences:
            return [Ranked(np.zeros(0, np.float32)) for _ in queries]
        if not queries:
            return []
        limit = self.manifest.recipe.model.max_query_tokens
        # A tokenizer, too, is used by one thread at a time: it keeps its truncation inside.
        with self._lock, torch.inference_mode(), autocast(self._precision, self._device):
            document = self._document(sentences)
            asked = tokenize(self._tokenizer, queries, limit)
            scores = self._model.score(document.source, asked.ids).float().cpu().numpy()
        if not np.isfinite(scores).all():
            raise RankerError(f"{self.identity} gives scores that are not finite: train it anew")
        return [
            Ranked(row, cut_sentences=document.cut, query_cut=number in asked.cut)
            for number, row in enumerate(scores)
        ]

    def _document(self, sentences: Sequence[str]) -> _Encoded:
        if self.sources is None:
            return self._encode(sentences)
        shaped_by = [
            self.manifest.weights_sha256,
            self.manifest.recipe.model.model_dump_json(),
            self._precision,
        ]
        return self.sources.get([*shaped_by, *sentences], lambda: self._encode(sentences))

    def _encode(self, sentences: Sequence[str]) -> _Encoded:
        tokens = tokenize(self._tokenizer, sentences, self.manifest.recipe.model.max_sentence_tokens)
        return _Encoded(self._model.encode_source(tokens.ids), tokens.cut)

    def _unpacked(self, arrays: Arrays) -> _Encoded:
        tensors = {name: torch.from_numpy(array).to(self._device) for name, array in arrays.items()}
        cut = tuple(tensors.pop("cut").tolist())
        assert self._model.source_type is not None
        return _Encoded(self._model.source_type.from_tensors(tensors), cut)


def _packed(document: _Encoded) -> Arrays:
    tensors = document.source.tensors().items()
    # numpy has no bfloat16, and float32 holds it exactly.
    whole = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors}
    arrays = {name: tensor.cpu().numpy() for name, tensor in whole.items()}
    return {**arrays, "cut": np.array(document.cut, dtype=np.int64)}
