"""Text to vectors, behind one string like a model's: `embedded:minilm`, `lexical:1024`, `openai:NAME@URL`."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from serving.errors import CallError, ModelError, classify
from weights.loading import MAX_CHARACTERS

Vectors = NDArray[np.float32]

DEFAULT_EMBEDDING = "embedded:minilm"


class Embedder(Protocol):
    """Anything that turns texts into vectors."""

    @property
    def identity(self) -> str:
        """Name and version of the weights; vectors of two identities are never compared."""

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        """L2-normalised vectors, shape (number of texts, dimensions)."""


@runtime_checkable
class BatchEmbedder(Protocol):
    """An embedder that is faster with many texts at once, and then gives vectors that differ in last bits."""

    def embed_batches(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder.aembed`, at once."""


class LexicalEmbedder:
    """Hashed word counts: no weights, no meaning, but the same words give near vectors.

    Serves where torch is not wanted, and in tests.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions

    @property
    def identity(self) -> str:
        """Fixed by the number of dimensions."""
        return f"lexical:{self._dimensions}"

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        """Signed hashing of lower-case words."""
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text[:MAX_CHARACTERS].lower()):
                value = zlib.crc32(word.encode(errors="replace"))
                row[value % self._dimensions] += 1.0 if value & 0x8000_0000 else -1.0
        return normalise(vectors)


class ServerEmbedder:
    """An embedding model behind OpenAI's protocol."""

    def __init__(self, name: str, base_url: str | None) -> None:
        from langchain_openai import OpenAIEmbeddings
        from pydantic import SecretStr

        self._name = name
        self._base_url = base_url
        self._model = OpenAIEmbeddings(
            model=name,
            openai_api_base=base_url,
            openai_api_key=SecretStr(os.environ.get("OPENAI_API_KEY") or "EMPTY"),
            # Its tokenizer guess asks a hub for files and is wrong for other servers' models.
            check_embedding_ctx_length=False,
        )

    @property
    def identity(self) -> str:
        """The model's name: a server tells no more."""
        return f"openai:{self._name}"

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        """One request for all texts.

        Raises:
            CallError: The server does not answer, or refuses.
        """
        try:
            vectors = await self._model.aembed_documents([text[:MAX_CHARACTERS] for text in texts])
        except Exception as error:
            # The client's exceptions are as many as a chat model's.
            failure = classify(error)
            place = self._base_url or "its hosted service"
            raise CallError(
                failure.error_class, f"embedding {self.identity!r} at {place}: {failure}"
            ) from error
        return normalise(np.asarray(vectors, dtype=np.float32))


def connect_embedder(name: str) -> Embedder:
    """Make an embedder ready.

    Raises:
        ModelError: The name is wrong.
        WeightsError: Its weights are not there.
    """
    provider, _, rest = name.partition(":")
    if provider == "lexical" and rest.isdecimal() and int(rest) > 0:
        return LexicalEmbedder(int(rest))
    if provider == "embedded" and rest:
        from retrieval.sentence_embedder import SentenceEmbedder

        return SentenceEmbedder(rest)
    if provider == "openai" and rest:
        model, _, base_url = rest.partition("@")
        return ServerEmbedder(model, base_url or None)
    raise ModelError(
        f"unknown embedding {name!r}: use embedded:minilm, embedded:/path/to/model, lexical:1024"
        " or openai:NAME@URL"
    )


def normalise(vectors: Vectors) -> Vectors:
    """Scale rows to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled
