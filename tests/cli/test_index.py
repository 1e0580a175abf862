"""`evigraph index` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.corpus.build import build
from tests.evigraph import Ended, evigraph

SAMPLE = Path(__file__).parents[2] / "cases" / "samples" / "health" / "literature.jsonl"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    build([SAMPLE], folder / "corpus")
    return folder


@pytest.fixture(scope="module")
def built(place: Path) -> Ended:
    arguments = ("--out", "out/index", "--embedding", "lexical:256")
    return evigraph("index", "build", "corpus", *arguments, folder=place)


def test_another_store_in_the_same_folder_is_refused(built: Ended, place: Path) -> None:
    arguments = ("--out", "out/index", "--embedding", "lexical:256", "--store", "chroma")
    ended = evigraph("index", "build", "corpus", *arguments, folder=place)
    assert ended.code == 2
    assert "was built with store numpy, and chroma is asked for. Build into another folder" in ended.line


def test_a_folder_without_an_index_is_named(place: Path) -> None:
    ended = evigraph("index", "search", "corpus", "tea", folder=place)
    assert ended.code == 2
    assert "corpus: contains no index. Build one: evigraph index build" in ended.line


def test_a_graph_that_compares_no_vectors_takes_no_index(built: Ended, place: Path) -> None:
    questions = SAMPLE.with_name("questions.jsonl")
    arguments = ("timeaware", questions, "--model", "scripted:auto", "--corpus", "corpus")
    ended = evigraph("run", *arguments, "--index", "out/index", folder=place)
    assert ended.code == 2
    assert "searches no index of vectors; leave --index out" in ended.line
