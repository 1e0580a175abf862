"""What an index reports beside its hits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases.errors import InputError
from retrieval.embeddings import Vectors
from retrieval.index.figures import measure, plan, shares
from retrieval.index.manifest import Effort, IndexedCorpus, Manifest
from retrieval.index.store import Nearest, VectorStore


def nearest(numbers: list[int], similarities: list[float]) -> Nearest:
    return Nearest(np.array(numbers), np.array(similarities, dtype=np.float32))


def test_recall_is_the_share_that_was_found() -> None:
    wanted = nearest([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.6])
    found = nearest([1, 3, 4, 9], [0.9, 0.7, 0.6, 0.1])
    assert shares([wanted, wanted], [wanted, found]) == {10: 0.875, 100: 0.875}


def test_an_equal_of_the_last_one_is_no_miss() -> None:
    assert shares([nearest([1, 2], [0.9, 0.8])], [nearest([1, 7], [0.9, 0.8])])[10] == 1.0


@pytest.mark.parametrize(("kind", "by_bytes"), [("numpy", False), ("int8", True), ("qdrant", False)])
def test_exact_stores_miss_nothing(
    kind: str, by_bytes: bool, stores: dict[str, VectorStore], queries: Vectors
) -> None:
    found = measure(stores[kind], queries)
    assert found.recall == {10: 1.0, 100: 1.0}
    assert bool(found.by_bytes) == by_bytes
    assert all(0.9 < share <= 1 for share in found.by_bytes.values())


def manifest(store: str, documents: int = 1000) -> Manifest:
    return Manifest(
        store=store,
        embedding="lexical:64",
        embedder="lexical:64",
        dimensions=64,
        documents=1000,
        corpus=IndexedCorpus(folder="/nowhere", identity="a", documents=1000, sources=[]),
        effort=Effort(documents=documents, seconds=50, encoding_seconds=40, storing_seconds=30),
        query_ms=2.0,
    )


def test_a_plan_goes_on_in_proportion(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_bytes(b"0" * 3000)
    found = plan(tmp_path, manifest("numpy"), 1_000_000)
    assert (found.seconds, found.encoding_seconds, found.disk_bytes) == (50_000, 40_000, 3_000_000)
    assert (found.query_bytes, found.query_ms) == (256_000_000, 2000)
    assert found.corpus_bytes is None


def test_chroma_walks_farther_by_the_logarithm(tmp_path: Path) -> None:
    found = plan(tmp_path, manifest("chroma"), 1_000_000)
    assert found.query_ms == pytest.approx(4.0)
    assert found.seconds == pytest.approx(60_000)


def test_of_a_server_no_disk_is_known(tmp_path: Path) -> None:
    found = plan(tmp_path, manifest("qdrant@http://one:6333"), 2000)
    assert (found.disk_bytes, found.query_bytes, found.query_ms) == (None, None, None)


def test_without_times_there_is_no_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has recorded no times"):
        plan(tmp_path, manifest("numpy", documents=0), 10)
