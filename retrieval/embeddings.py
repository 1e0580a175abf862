"""Text to vectors, behind one string like a model's: `embedded:minilm`, `lexical:1024`, `openai:NAME@URL`."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from ranking.encoding.encoders import MINILM
from ranking.encoding.vectors import EncoderVectors, Vectors, shared_vectors
from serving.backends import addresses
from serving.policy.gate import demand_route
from serving.policy.traffic import Traffic, count, size
from serving.protocol.addresses import redacted
from serving.protocol.errors import ModelError, classify
from serving.protocol.keys import api_key, check_address
from serving.protocol.model_name import ModelName
from weights.loading import MAX_CHARACTERS
from weights.registry import fingerprint

DEFAULT_EMBEDDING = "embedded:minilm"

_TOGETHER = 32
_KEY = "OPENAI_API_KEY"
_REQUEST_S = 600.0


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

    def embed_batches(self, texts: Sequence[str]) -> Vectors: ...


class LexicalEmbedder:
    """Hashed word counts: no weights, no meaning, but the same words give near vectors.

    Serves where torch is not wanted, and in tests.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions

    @property
    def identity(self) -> str:
        return f"lexical:{self._dimensions}"

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text[:MAX_CHARACTERS].lower()):
                value = zlib.crc32(word.encode(errors="replace"))
                row[value % self._dimensions] += 1.0 if value & 0x8000_0000 else -1.0
        return normalise(vectors)


class SentenceEmbedder:
    """An encoder in this process, of which rankers use the same copy if it is the packaged one."""

    def __init__(self, name_or_path: str = MINILM) -> None:
        """Find the weights; they are loaded at the first text.

        Raises:
            WeightsError: The package is not installed, or the folder holds no model.
        """
        self._name = name_or_path
        self._vectors = shared_vectors() if name_or_path == MINILM else EncoderVectors(name_or_path, None)
        self.folder = self._vectors.folder

    @cached_property
    def identity(self) -> str:
        """Name and weights, for run manifests: equal identities give equal vectors on one machine."""
        return f"{self._name}@{fingerprint(self.folder)}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        # One by one, a text's vector has the same bits whatever else is embedded, and padding
        # costs as much as batches save on a processor (28 notes: 7.0 s together, 8.2 s apart).
        return self._vectors.encode(texts, 1)

    def embed_batches(self, texts: Sequence[str]) -> Vectors:
        return self._vectors.encode(texts, _TOGETHER)

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.embed, texts)


class ServerEmbedder:
    """An embedding model behind OpenAI's protocol."""

    def __init__(self, name: str, base_url: str | None) -> None:
        from httpx2 import AsyncClient, AsyncHTTPTransport
        from langchain_openai import OpenAIEmbeddings
        from pydantic import SecretStr

        from serving.backends.limited_httpx import client_settings, take_any_size

        http_client = AsyncClient(**client_settings(AsyncHTTPTransport))
        # Vectors of many texts come in one reply.
        take_any_size(http_client)
        self._http_client = http_client
        self._name = name
        self._base_url = base_url
        self._address = base_url or addresses(ModelName("openai", name))[0]
        self._model = OpenAIEmbeddings(
            model=name,
            openai_api_base=base_url,
            openai_api_key=SecretStr(api_key(_KEY) or "EMPTY"),
            # Its tokenizer guess asks a hub for files and is wrong for other servers' models.
            check_embedding_ctx_length=False,
            http_async_client=http_client,
            request_timeout=_REQUEST_S,
        )

    @property
    def identity(self) -> str:
        """The model's name, as a server does not report its weights."""
        return f"openai:{self._name}"

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        """One request for all texts.

        Raises:
            CallError: The server does not answer, or refuses.
            PolicyError: No text may go to it.
        """
        demand_route(self._address, f"embedding {self.identity!r}")
        cut = [text[:MAX_CHARACTERS] for text in texts]
        count(self._address, Traffic(1, 0, size(cut)))
        try:
            vectors = await self._model.aembed_documents(cut)
        except Exception as error:
            # The client's exceptions are as many as a chat model's.
            failure = classify(error)
            place = self._base_url or "its hosted service"
            raise failure.at(f"embedding {self.identity!r} at {place}", _KEY) from error
        return normalise(np.asarray(vectors, dtype=np.float32))

    async def aclose(self) -> None:
        await self._http_client.aclose()


def connect_embedder(name: str) -> Embedder:
    """Make an embedder ready.

    Raises:
        ModelError: The name is wrong, or its address holds a secret.
        PolicyError: No text may go to its server.
        WeightsError: Its weights are not there.
    """
    provider, _, rest = name.partition(":")
    if provider == "lexical" and rest.isdecimal() and int(rest) > 0:
        return LexicalEmbedder(int(rest))
    if provider == "embedded" and rest:
        return SentenceEmbedder(rest)
    if provider == "openai" and rest:
        model, _, base_url = rest.partition("@")
        check_address(base_url, f"embedding {name!r}", _KEY)
        for address in (base_url,) if base_url else addresses(ModelName(provider, model)):
            demand_route(address, f"embedding {name!r}")
        return ServerEmbedder(model, base_url or None)
    raise ModelError(
        f"unknown embedding {redacted(name)!r}: use embedded:minilm, embedded:/path/to/model, lexical:1024"
        " or openai:NAME@URL"
    )


def normalise(vectors: Vectors) -> Vectors:
    """Scale rows to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled
