"""Encoded documents, kept for their next query: in memory, and on disk where a folder is given."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from ranking.models.model import TensorSource
from ranking.models.tokens import Tokenized, tokenize
from ranking.tensor_files import checksum, read_tensors, write_tensors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ranking.models.model import EvidenceModel

Storage = Literal["float32", "float16"]

_DTYPES = {"float32": torch.float32, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """What a model knows of a document before any query.

    Attributes:
        source: For the model's `score`.
        cut: Positions of the sentences that were longer than the limit.
    """

    source: Any
    cut: tuple[int, ...]


class SourceCache:
    """Encodes each document once for one model (Abridge 2025, section 3.1).

    An entry belongs to the sentences, the weights, the limit of tokens and the data type; any other of these
    is another entry, so training on between two uses gives no stale vectors. Where a model knows nothing
    before the query (`early`), documents are tokenized and nothing is kept. Not for several
    threads.

    Attributes:
        hits: Documents that were found, in memory or on disk.
        misses: Documents that were encoded.
    """

    def __init__(
        self,
        model: EvidenceModel[Any],
        tokenizer: PreTrainedTokenizerBase,
        max_sentence_tokens: int,
        *,
        memory_bytes: int = 256 * 1024 * 1024,
        folder: Path | None = None,
        storage: Storage = "float32",
    ) -> None:
        """Prepare an empty cache.

        Args:
            model: Encodes; it has to be in evaluation mode whenever it does.
            tokenizer: Of the model's backbone.
            max_sentence_tokens: Longer sentences are cut.
            memory_bytes: Beyond it, the documents that were used longest ago are dropped from memory. A
                single larger document is used and not kept.
            folder: Where entries are also kept as safetensors files; None for memory alone.
            storage: Of vectors on disk and between uses. float16 halves them, and moves logits by about 1e-3.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._limit = max_sentence_tokens
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._storage: Storage = storage
        self._entries: OrderedDict[str, tuple[EncodedDocument, int]] = OrderedDict()
        self._versions: tuple[int, ...] = ()
        self._weights = ""
        self.hits = 0
        self.misses = 0

    @property
    def held_bytes(self) -> int:
        """Memory of the documents that are held."""
        return sum(size for _, size in self._entries.values())

    def encode(self, sentences: Sequence[str]) -> EncodedDocument:
        """Find or encode a document.

        Raises:
            RuntimeError: The model is in training mode: its vectors change with every step.
        """
        if self._model.training:
            raise RuntimeError("a model in training mode has no vectors to keep: call model.eval() first")
        kind = self._model.source_type
        if kind is None:
            tokens = self._tokenize(sentences)
            return EncodedDocument(tokens.ids, tokens.cut)
        key = self._key(sentences)
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            self.hits += 1
            return found[0]
        document = self._read(key, kind)
        if document is None:
            self.misses += 1
            document = self._encode(sentences)
            self._write(key, document)
        else:
            self.hits += 1
        self._keep(key, document)
        return document

    def _tokenize(self, sentences: Sequence[str]) -> Tokenized:
        return tokenize(self._tokenizer, sentences, self._limit)

    def _encode(self, sentences: Sequence[str]) -> EncodedDocument:
        tokens = self._tokenize(sentences)
        # Tensors made in inference mode could never be used outside it.
        with torch.inference_mode(False), torch.no_grad():
            source: TensorSource = self._model.encode_source(tokens.ids)
            if self._storage != "float32":
                # So that the first use equals every later one.
                source = type(source).from_tensors(
                    _as(source.tensors(), _DTYPES[self._storage], torch.float32)
                )
        return EncodedDocument(source, tokens.cut)

    def _key(self, sentences: Sequence[str]) -> str:
        named = json.dumps(
            [list(sentences), self._described(), self._fingerprint(), self._limit, self._storage]
        )
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()

    def _fingerprint(self) -> str:
        """Hash of all weights and buffers, taken anew when one was written to."""
        tensors = self._model.state_dict(keep_vars=True)
        versions = tuple(number for tensor in tensors.values() for number in (id(tensor), tensor._version))
        if versions != self._versions:
            self._weights, self._versions = checksum(tensors), versions
        return self._weights

    def _described(self) -> str:
        """What shapes a source and is no weight."""
        backbone = self._model.backbone
        encoder_config = getattr(backbone.encoder, "config", None)
        pooling = getattr(self._model, "pooling", None)
        return f"{type(self._model).__name__} {encoder_config} {pooling} {backbone.layout}"

    def _keep(self, key: str, document: EncodedDocument) -> None:
        size = document.source.nbytes
        if size > self._memory_bytes:
            return
        self._entries[key] = (document, size)
        while self.held_bytes > self._memory_bytes:
            self._entries.popitem(last=False)

    def _read(self, key: str, kind: type[TensorSource]) -> EncodedDocument | None:
        """An entry from disk; None when there is none, or it is damaged."""
        if self._folder is None:
            return None
        # Tensors made in inference mode could never be used outside it.
        with torch.inference_mode(False):
            tensors = read_tensors(self._path(key))
            if tensors is None:
                return None
            cut = tuple(tensors.pop("cut").tolist())
            device = self._model.backbone.device
            restored = {name: tensor.to(device) for name, tensor in _as(tensors, torch.float32).items()}
            return EncodedDocument(kind.from_tensors(restored), cut)

    def _write(self, key: str, document: EncodedDocument) -> None:
        """Put an entry on disk, whole or not at all."""
        if self._folder is None:
            return
        tensors = _as(document.source.tensors(), _DTYPES[self._storage])
        tensors["cut"] = torch.tensor(document.cut, dtype=torch.long)
        write_tensors(self._path(key), tensors)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{key}.safetensors"


def _as(tensors: dict[str, torch.Tensor], *dtypes: torch.dtype) -> dict[str, torch.Tensor]:
    """Floating-point tensors through data types, one after the other; the others as they are."""
    for dtype in dtypes:
        tensors = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }
    return tensors
