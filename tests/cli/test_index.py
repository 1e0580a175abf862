"""`evigraph index` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.data.corpus import size
from cli.data.index import span
from retrieval.corpus.build import build
from tests.evigraph import Ended, evigraph, said

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


def test_an_index_is_shown_searched_and_measured(
    built: Ended, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "250")
    shown = said("index", "show", "out/index")
    assert "store numpy vectors 256 dimensions embedder lexical:256 corpus" in shown
    assert " for 24 documents" in shown and " kB build " in shown and shown.startswith("out/index: 24 doc")
    found = said("index", "search", "out/index", "Does ginger help against nausea?", "-k", "1")
    assert found.startswith("rank cosine year cited id title kind of study source 1 0.209 2023 11 L24 Le")
    recall = said("index", "recall", "out/index", "--queries", "3")
    assert recall.startswith("3 titles, 24 documents, store numpy recall@")
    assert "recall@10 1.0000" in recall and " p95 " in recall


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (119, "119.0 seconds"),
        (120, "2.0 minutes"),
        (7_199, "120.0 minutes"),
        (7_200, "2.0 hours"),
        (172_800, "2.0 days"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_so_has_a_size() -> None:
    sizes = [size(count) for count in (999_999, 1e6, 1e9, 2.5e12)]
    assert sizes == ["1,000.0 kB", "1.0 MB", "1.0 GB", "2.5 TB"]
