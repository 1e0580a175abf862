from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from retrieval.embeddings import LexicalEmbedder, connect_embedder, normalise
from serving.protocol.errors import CallError, ModelError
from tests.serving.fake_server import DIMENSIONS, FakeServer

TEXTS = ("Why was the drug stopped?", "why was, the DRUG stopped", "Was it cancer?", "", "...", "לב תקין 🫀")


async def test_lexical_vectors_have_length_one_or_are_zero() -> None:
    vectors = await connect_embedder("lexical:64").aembed(TEXTS)
    assert vectors.shape == (6, 64)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1, 0, 0, 1], abs=1e-6)


async def test_lexical_vectors_are_the_same_every_time_and_alone() -> None:
    together = await LexicalEmbedder(64).aembed(TEXTS)
    alone = [await LexicalEmbedder(64).aembed([text]) for text in TEXTS]
    assert np.array_equal(together, np.concatenate(alone))


async def test_lexical_vectors_follow_the_words_only() -> None:
    one, same, other, *_ = await LexicalEmbedder(1024).aembed(TEXTS)
    assert one @ same == pytest.approx(1.0, abs=1e-6)
    assert one @ other < 0.9


def test_identities_tell_embedders_apart() -> None:
    names = ("lexical:64", "lexical:65", "openai:a@http://one/v1", "openai:b@http://one/v1")
    identities = [connect_embedder(name).identity for name in names]
    assert all(one != other for one, other in pairwise(identities))
    assert identities[0] == "lexical:64"
    assert connect_embedder("openai:a@http://two/v1").identity == "openai:a"


@pytest.mark.parametrize(
    "name",
    ["", "minilm", "lexical", "lexical:", "lexical:0", "lexical:-1", "lexical:many", "openai:", "embedded:"],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        connect_embedder(name)
    assert repr(name) in str(caught.value)
    assert "lexical:1024" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_server_embeds_all_texts_in_one_request(server: FakeServer) -> None:
    embedder = connect_embedder(f"openai:nomic@{server.url}")
    vectors = await embedder.aembed(TEXTS)
    (request,) = server.received
    assert request.path == "/v1/embeddings"
    assert (request.body["model"], request.body["input"]) == ("nomic", list(TEXTS))
    assert request.authorization == "Bearer EMPTY"
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(await LexicalEmbedder(DIMENSIONS).aembed(TEXTS), abs=1e-6)


async def test_an_embedding_server_that_is_gone_is_named_in_one_line(server: FakeServer) -> None:
    server.stop()
    with pytest.raises(CallError) as caught:
        await connect_embedder(f"openai:nomic@{server.url}").aembed(["Hello"])
    assert caught.value.error_class == "connection"
    assert server.url in str(caught.value)


def test_normalising_leaves_zero_rows() -> None:
    vectors = np.array([[3, 4], [0, 0]], dtype=np.float32)
    assert normalise(vectors).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]
