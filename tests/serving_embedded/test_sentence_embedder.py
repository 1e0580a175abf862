from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from retrieval.embeddings import SentenceEmbedder
from weights.registry import WeightsError


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    return SentenceEmbedder("minilm")


def test_threads_share_one_model(embedder: SentenceEmbedder) -> None:
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: embedder.embed(["Chest pain."]), range(4))
    assert all(np.allclose(first, other, atol=1e-6) for other in others)


async def test_vectors_have_length_one_and_near_texts_are_near(embedder: SentenceEmbedder) -> None:
    vectors = await embedder.aembed(
        ["The patient has a fever.", "Her temperature is high.", "The bus is late."]
    )
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.dtype(np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_the_identity_names_the_weights(embedder: SentenceEmbedder) -> None:
    name, _, weights = embedder.identity.partition("@")
    assert (name, len(weights)) == ("minilm", 16)


def test_a_folder_without_a_model_says_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="minilm"):
        SentenceEmbedder(str(tmp_path))


def test_a_vector_is_the_same_bits_whatever_is_embedded_beside_it(embedder: SentenceEmbedder) -> None:
    texts = ["Fever.", "The patient was admitted with chest pain and dyspnea on exertion. " * 12, "No."]
    together = embedder.embed(texts)
    assert all(
        np.array_equal(row, embedder.embed([text])[0]) for row, text in zip(together, texts, strict=True)
    )
