"""Every store gives the same answers about the same vectors."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.vectors import Vectors
from retrieval.index.chroma_store import ChromaStore
from retrieval.index.connect_store import STORES, check_store, connect_store, store_help
from retrieval.index.manifest import IndexedCorpus, Manifest
from retrieval.index.numpy_store import NumpyStore
from retrieval.index.qdrant_store import QdrantStore
from retrieval.index.store import VectorStore
from serving.protocol.errors import CallError, ModelError
from storage.errors import InputError
from tests.retrieval.index.conftest import COUNT, DIMENSIONS, TWINS, ids
from tests.serving.redirecting import SECRET, redirecting

KINDS = ("numpy", "parts", "chroma", "qdrant", "server")
Stores = dict[str, VectorStore]


def ranking(vectors: Vectors, query: Vectors) -> list[int]:
    """By the definition: cosines to six figures, equals in the order of the corpus."""
    cosines = [round(float(np.dot(vector.astype(float), query.astype(float))), 6) for vector in vectors]
    return sorted(range(len(cosines)), key=lambda number: (-cosines[number], number))


@pytest.mark.parametrize("kind", KINDS)
def test_the_ten_nearest_are_those_of_the_definition(
    kind: str, stores: Stores, vectors: Vectors, queries: Vectors
) -> None:
    found = stores[kind].search(queries, 10)
    assert [one.numbers.tolist() for one in found] == [ranking(vectors, query)[:10] for query in queries]
    best = found[0].numbers[0]
    assert found[0].scores[0] == pytest.approx(float(vectors[best] @ queries[0]), abs=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_one_query_and_many_give_the_same(kind: str, stores: Stores, queries: Vectors) -> None:
    together = stores[kind].search(queries, 10)
    alone = [stores[kind].search(query[None, :], 10)[0] for query in queries]
    assert [one.numbers.tolist() for one in alone] == [one.numbers.tolist() for one in together]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_come_in_the_order_of_the_corpus(
    kind: str, count: int, stores: Stores, vectors: Vectors
) -> None:
    (found,) = stores[kind].search(vectors[TWINS[2]][None, :], count)
    assert tuple(found.numbers.tolist()) == TWINS[:count]
    assert found.scores.tolist() == pytest.approx([1.0] * count, abs=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_there_are_is_all_of_them(kind: str, stores: Stores, queries: Vectors) -> None:
    assert sorted(stores[kind].search(queries[:1], 10 * COUNT)[0].numbers.tolist()) == list(range(COUNT))
    assert stores[kind].search(queries[:1], 0)[0].numbers.size == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_is_known_by_its_document(kind: str, stores: Stores, vectors: Vectors) -> None:
    store = stores[kind]
    assert store.count == COUNT
    assert store.stored(COUNT - 2, [*ids(COUNT - 2), "new"]).tolist() == [True, True, False]
    with pytest.raises(InputError, match=r"another document|holds the document 'pmid3'"):
        store.stored(3, ["other"])
    assert np.allclose(store.vectors(85, 10), vectors[85:95], atol=1e-6)
    assert store.vectors(COUNT - 1, 10).shape == (1, DIMENSIONS)


def test_chromas_index_finds_nearly_all(stores: Stores, vectors: Vectors, queries: Vectors) -> None:
    chroma = stores["chroma"]
    assert isinstance(chroma, ChromaStore)
    found = chroma.approximate(queries, 10)
    pairs = zip(found, queries, strict=True)
    hits = [len({*one.numbers.tolist()} & {*ranking(vectors, query)[:10]}) for one, query in pairs]
    assert sum(hits) >= 0.95 * 10 * len(queries)


def test_chroma_searches_its_index_where_vectors_are_many(
    stores: Stores, queries: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    chroma = stores["chroma"]
    assert isinstance(chroma, ChromaStore)
    monkeypatch.setattr(chroma, "_few", None)
    (nearest,) = chroma.approximate(queries[3:4], 1)
    for most, exactly in ((COUNT - 1, False), (COUNT, True)):
        monkeypatch.setattr("retrieval.index.chroma_store.EXACT_UP_TO", most)
        assert chroma.search(queries, 1)[3].numbers.tolist() == nearest.numbers.tolist()
        assert (chroma._few is not None) is exactly


def test_a_damaged_chroma_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_text("no database " * 100)
    with pytest.raises(InputError, match=r"Chroma cannot open it: .*Build the index anew"):
        ChromaStore(tmp_path)


def test_a_folder_of_qdrant_has_one_process(tmp_path: Path) -> None:
    store = QdrantStore(tmp_path / "store", "one", DIMENSIONS)
    with pytest.raises(ModelError, match="already accessed by another instance") as caught:
        QdrantStore(tmp_path / "store", "one", DIMENSIONS)
    assert "\n" not in str(caught.value)
    with warnings.catch_warnings():
        # Its client leaves the lock open that it did not get.
        warnings.simplefilter("ignore", ResourceWarning)
        del caught
        gc.collect()
    store.close()
    QdrantStore(tmp_path / "store", "one", DIMENSIONS).close()


def test_a_redirect_of_qdrant_names_both_hosts_and_calls_no_other() -> None:
    with redirecting() as pair:
        with pytest.raises(CallError, match=r"Qdrant at .* redirects") as caught:
            QdrantStore(pair.url, "one", DIMENSIONS)
        assert all(host in str(caught.value) for host in pair.hosts)
        assert SECRET not in str(caught.value)
        assert pair.leaked == []


def test_a_row_that_a_kill_has_torn_is_written_anew(tmp_path: Path, vectors: Vectors) -> None:
    store = NumpyStore(tmp_path, DIMENSIONS, rows=32)
    store.add(0, ids(0, 40), vectors[:40])
    store.close()
    with (tmp_path / "00001.f32").open("ab") as file:
        file.write(b"\x01" * 200)
    again = NumpyStore(tmp_path, DIMENSIONS, rows=32)
    assert again.count == 40
    again.add(40, ids(40, 70), vectors[40:70])
    assert np.array_equal(NumpyStore(tmp_path, DIMENSIONS, rows=32).vectors(0, 70), vectors[:70])


def test_rows_have_no_gaps(tmp_path: Path, vectors: Vectors) -> None:
    with pytest.raises(ValueError, match="the next vector has number 0, not 1"):
        NumpyStore(tmp_path, DIMENSIONS).add(1, ["a"], vectors[:1])


@pytest.mark.parametrize("name", ["", "faiss", "numpy@http://one", "qdrant@", "qdrant@host:6333"])
def test_an_unknown_store_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"unknown store|not a server URL"):
        check_store(name)


def test_a_server_that_is_away_is_named() -> None:
    with pytest.raises(CallError, match=r"Qdrant at http://127\.0\.0\.1:9") as caught:
        QdrantStore("http://127.0.0.1:9", "one", DIMENSIONS)
    assert caught.value.error_class == "connection"


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    monkeypatch.delitem(sys.modules, "retrieval.index.qdrant_store")
    with pytest.raises(
        ModelError, match=r"the store qdrant needs .* pip install -e '\.\[qdrant\]' in the clone"
    ):
        connect_store(tmp_path, manifest("qdrant"))


@pytest.mark.parametrize("name", STORES)
def test_every_kind_opens_by_its_name(name: str, tmp_path: Path, vectors: Vectors) -> None:
    store = connect_store(tmp_path, manifest(name))
    store.add(0, ["a", "b"], vectors[:2])
    assert store.count == 2
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]


@pytest.mark.parametrize("name", STORES)
def test_every_kind_is_in_help_and_documentation(name: str) -> None:
    assert f"{name} (" in store_help()
    assert f"| `{name}` |" in (Path(__file__).parents[3] / "docs" / "search.md").read_text("utf-8")


def manifest(store: str) -> Manifest:
    corpus = IndexedCorpus(folder="c", identity="c", documents=2, sources=[])
    return Manifest(
        store=store, collection="one", embedding="e", embedder="e", dimensions=DIMENSIONS, corpus=corpus
    )
