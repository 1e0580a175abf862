"""Builds that end, go on, grow and refuse."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.vectors import Vectors
from retrieval.building import Built
from retrieval.corpus.build import BuildOptions as CorpusOptions
from retrieval.corpus.build import build
from retrieval.corpus.corpus import Corpus
from retrieval.embeddings import LexicalEmbedder
from retrieval.index.build import BuildOptions, build_index, encode, passage
from retrieval.index.index import Index
from retrieval.index.manifest import Manifest
from storage.errors import InputError

SAMPLE = Path(__file__).parents[3] / "cases" / "samples" / "health" / "literature.jsonl"
OPTIONS = BuildOptions(embedding="lexical:64", chunk=5)
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from retrieval.index.build import BuildOptions, build_index
from retrieval.embeddings import LexicalEmbedder

class Killed(LexicalEmbedder):
    calls = 0
    async def aembed(self, texts):
        self.calls += 1
        if self.calls == 5:  # one for the dimensions, and a fourth chunk while the third is stored
            await asyncio.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().aembed(texts)

options = BuildOptions(store=sys.argv[3], embedding="lexical:64", chunk=5)
asyncio.run(build_index(Path(sys.argv[1]), Path(sys.argv[2]), options, embedder=Killed(64)))
"""


class Counting(LexicalEmbedder):
    """Keeps what it was given."""

    def __init__(self, dimensions: int = 64) -> None:
        super().__init__(dimensions)
        self.texts: list[str] = []

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return await super().aembed(texts)


class Together(LexicalEmbedder):
    """Encodes batches together, and not one text after the other."""

    def embed_batches(self, texts: Sequence[str]) -> Vectors:
        return asyncio.run(super().aembed(texts))

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        raise AssertionError("one by one")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    build([SAMPLE], tmp_path / "corpus", CorpusOptions(part_size=7))
    return tmp_path / "corpus"


def made(
    corpus: Path, folder: Path, options: BuildOptions = OPTIONS, embedder: Counting | None = None
) -> Built[Manifest]:
    return asyncio.run(build_index(corpus, folder, options, embedder=embedder))


async def test_a_document_is_found_by_its_own_passage(corpus: Path, tmp_path: Path) -> None:
    await build_index(corpus, tmp_path / "index", OPTIONS)
    index = Index.open(tmp_path / "index")
    assert len(index) == 24
    for document in index.corpus:
        (hit,) = await index.asearch(passage(document), 1)
        assert (hit.rank, hit.document) == (1, document)
        assert hit.score == pytest.approx(1.0, abs=1e-5)
    assert len(await index.asearch("tea", 100)) == 24
    assert await index.asearch("tea", 0) == []


def test_what_is_stored_is_not_encoded_again(corpus: Path, tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    assert not made(corpus, tmp_path / "index", embedder=first).unchanged
    assert len(first.texts) == 1 + 24
    built = made(corpus, tmp_path / "index", embedder=second)
    assert (built.unchanged, second.texts) == (True, [])


@pytest.mark.parametrize("store", ["numpy", "chroma"])
def test_a_killed_build_goes_on(store: str, corpus: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(corpus), str(tmp_path / "index"), store]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    left = Manifest.read(tmp_path / "index")
    assert left is not None and not left.complete
    with pytest.raises(InputError, match="is not finished"):
        Index.open(tmp_path / "index")
    embedder = Counting()
    options = BuildOptions(store=store, embedding="lexical:64", chunk=5)
    built = made(corpus, tmp_path / "index", options, embedder)
    assert built.found in (10, 15)
    assert len(embedder.texts) <= 24 - built.found
    whole = made(corpus, tmp_path / "whole")
    vectors, others = (Index.open(tmp_path / name).store.vectors(0, 24) for name in ("index", "whole"))
    assert np.allclose(vectors, others, atol=1e-6)
    assert built.manifest.documents == whole.manifest.documents == 24


def test_vectors_that_were_stored_without_their_mark_are_kept(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "complete": False, "documents": 12}))
    embedder = Counting()
    assert made(corpus, tmp_path / "index", embedder=embedder).found == 12
    assert embedder.texts == []


def test_a_corpus_that_grew_is_extended(corpus: Path, tmp_path: Path) -> None:
    before = made(corpus, tmp_path / "index").manifest
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "new", "text": "gout"}\n' + SAMPLE.read_text("utf-8").splitlines()[0])
    build([SAMPLE, more], corpus, CorpusOptions(part_size=7))
    with pytest.raises(InputError, match=r"was built again since, and has 25 documents now"):
        Index.open(tmp_path / "index")
    embedder = Counting()
    after = made(corpus, tmp_path / "index", embedder=embedder).manifest
    assert embedder.texts == ["gout"]
    assert (before.documents, after.documents) == (24, 25)
    assert Index.open(tmp_path / "index").store.count == 25


def test_a_corpus_with_other_scores_of_words_needs_no_vectors_again(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    build([SAMPLE], corpus, CorpusOptions(part_size=7, min_df=2))
    embedder = Counting()
    made(corpus, tmp_path / "index", embedder=embedder)
    assert embedder.texts == []
    assert len(Index.open(tmp_path / "index")) == 24


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (BuildOptions(embedding="lexical:65"), "embedder lexical:64, and lexical:65 is asked for"),
        (BuildOptions(embedding="lexical:64", store="chroma"), "store numpy, and chroma is asked for"),
    ],
)
def test_an_index_of_another_kind_is_refused(
    options: BuildOptions, fault: str, corpus: Path, tmp_path: Path
) -> None:
    made(corpus, tmp_path / "index")
    with pytest.raises(InputError, match=fault):
        made(corpus, tmp_path / "index", options)


def test_an_index_of_another_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    (tmp_path / "one.jsonl").write_text('{"id": "a", "text": "gout"}\n')
    build([tmp_path / "one.jsonl"], tmp_path / "other")
    with pytest.raises(InputError, match="was built from the corpus"):
        made(tmp_path / "other", tmp_path / "index")
    with pytest.raises(InputError, match="was built from the corpus"):
        Index.open(tmp_path / "index", Corpus.open(tmp_path / "other"))


def test_other_weights_under_the_same_name_are_refused(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(path.read_text().replace('"embedder": "lexical:64"', '"embedder": "lexical:older"'))
    with pytest.raises(InputError, match=r"were made by lexical:older, and lexical:64 is now"):
        Index.open(tmp_path / "index")


@pytest.mark.parametrize("embedder", [LexicalEmbedder(32), Together(32)])
async def test_vectors_come_in_the_order_of_their_texts(embedder: LexicalEmbedder) -> None:
    texts = ["gout " * (number % 7 + 1) + str(number) for number in range(300)]
    done: list[int] = []
    vectors = await encode(embedder, texts, done.append)
    assert np.array_equal(vectors, await LexicalEmbedder(32).aembed(texts))
    assert done == sorted(done) and done[-1] == 300


@pytest.mark.parametrize("content", ["3", "{", '{"complete": true}'])
def test_a_damaged_manifest_is_named(corpus: Path, tmp_path: Path, content: str) -> None:
    made(corpus, tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(content)
    with pytest.raises(InputError, match=r"index\.json: .* It is damaged or of another version: build the"):
        Index.open(tmp_path / "index")


def test_a_store_that_lost_vectors_is_refused(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    manifest = Manifest.read_finished(tmp_path / "index")
    manifest.documents = 30
    manifest.write(tmp_path / "index")
    with pytest.raises(InputError, match=r"holds 24 vectors, and 30 were stored\. Build it anew"):
        Index.open(tmp_path / "index")
    manifest.complete = False
    manifest.write(tmp_path / "index")
    with pytest.raises(InputError, match=r"holds 24 vectors, and 30 were stored\. Build into another"):
        made(corpus, tmp_path / "index")


def test_a_corpus_that_has_moved_is_asked_for(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    corpus.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"its corpus is no longer at .*/corpus\. Name its folder"):
        Index.open(tmp_path / "index")
    assert len(Index.open(tmp_path / "index", Corpus.open(tmp_path / "moved"))) == 24


def test_a_document_without_a_title_is_its_text(corpus: Path) -> None:
    document = next(iter(Corpus.open(corpus)))
    assert passage(document) == f"{document.title}. {document.text}"
    untitled = type(document)("a", "", "Gout hurts.")
    assert passage(untitled) == "Gout hurts."


@pytest.mark.parametrize("store", ["numpy", "chroma", "qdrant"])
def test_another_store_takes_the_vectors_that_are_there(corpus: Path, tmp_path: Path, store: str) -> None:
    made(corpus, tmp_path / "first")
    embedder = Counting()
    options = BuildOptions(store=store, embedding="lexical:64", chunk=5, vectors_of=tmp_path / "first")
    built = made(corpus, tmp_path / "second", options, embedder)
    assert embedder.texts == ["one"]
    assert (built.manifest.effort.copied, built.manifest.documents) == (True, 24)
    first, second = Index.open(tmp_path / "first"), Index.open(tmp_path / "second")
    for document in first.corpus:
        found = [asyncio.run(index.asearch(passage(document), 5)) for index in (first, second)]
        assert [hit.document.id for hit in found[0]] == [hit.document.id for hit in found[1]]
    for index in (first, second):
        index.close()


def test_what_the_other_index_lacks_is_encoded(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "first")
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "new", "title": "A new one", "text": "Of today."}) + "\n")
    build([SAMPLE, more], corpus, CorpusOptions(part_size=7))
    embedder = Counting()
    options = replace(OPTIONS, vectors_of=tmp_path / "first", chunk=8)
    built = made(corpus, tmp_path / "second", options, embedder)
    assert embedder.texts == ["one", "A new one. Of today."]
    assert (built.manifest.effort.copied, built.manifest.documents) == (True, 25)


def test_vectors_of_others_are_refused(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "first")
    options = BuildOptions(embedding="lexical:32", vectors_of=tmp_path / "first")
    with pytest.raises(InputError, match="was built with embedder lexical:64, and lexical:32 is asked for"):
        made(corpus, tmp_path / "second", options)
    assert Manifest.read(tmp_path / "second") is None
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"id": "x", "title": "X", "text": "Y."}) + "\n")
    build([other], tmp_path / "others", CorpusOptions())
    with pytest.raises(InputError, match="x"):
        made(tmp_path / "others", tmp_path / "third", replace(OPTIONS, vectors_of=tmp_path / "first"))


def test_an_unknown_field_is_named_with_the_remedy(corpus: Path, tmp_path: Path) -> None:
    made(corpus, tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantisation": "int8"}))
    with pytest.raises(InputError, match=r"index\.json: quantisation: unknown field\. .* build the index"):
        Index.open(tmp_path / "index")
