"""Which corpus and index a recipe needs, takes and refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cases.errors import InputError
from graph.recipe import Recipe, RecipeError
from retrieval.corpus.build import build
from retrieval.index.build import BuildOptions, build_index
from runs.literature import describe_sources, open_sources, recorded_corpus, recorded_index
from runs.manifest import Inputs, LiteratureSources, Manifest

SAMPLE = Path(__file__).parents[2] / "cases" / "samples" / "health" / "literature.jsonl"
NODES = ("retrieve_documents",)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    build([SAMPLE], folder / "corpus")
    (folder / "one.jsonl").write_text('{"id": "a", "text": "gout"}\n')
    build([folder / "one.jsonl"], folder / "other")
    asyncio.run(build_index(folder / "corpus", folder / "index", BuildOptions(embedding="lexical:64")))
    return folder


def recipe(**documents: Any) -> Recipe:
    return Recipe.model_validate({"system": "timeaware", "documents": documents})


def refused(recipe: Recipe, corpus: Path | None, index: Path | None) -> str:
    with pytest.raises(RecipeError) as caught:
        open_sources(recipe, NODES, corpus, index, "mine")
    return str(caught.value)


def test_words_need_a_corpus_alone(place: Path) -> None:
    opened = open_sources(recipe(retriever="words"), NODES, place / "corpus", None, "mine")
    assert opened.literature is not None and len(opened.literature) == 24
    assert opened.index is None
    assert "give its folder: --corpus FOLDER" in refused(recipe(retriever="words"), None, None)
    fault = refused(recipe(retriever="words"), place / "corpus", place / "index")
    assert "documents.retriever is words and searches no index of vectors; leave --index out" in fault


@pytest.mark.parametrize("retriever", ["dense", "hybrid"])
def test_vectors_need_an_index(retriever: str, place: Path) -> None:
    assert "give its folder: --index FOLDER" in refused(recipe(retriever=retriever), place / "corpus", None)


def test_an_index_brings_its_corpus(place: Path) -> None:
    opened = open_sources(recipe(), NODES, None, place / "index", "mine")
    assert opened.folder == place / "corpus"
    assert opened.literature is not None and opened.index is not None
    assert len(opened.literature) == len(opened.index) == 24


def test_an_index_of_another_corpus_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="was built from another corpus"):
        open_sources(recipe(), NODES, place / "other", place / "index", "mine")


def test_phase_b_searches_nothing(place: Path) -> None:
    assert open_sources(recipe(phase="b"), NODES, None, None, "mine").literature is None
    fault = refused(recipe(phase="b"), place / "corpus", None)
    assert "with documents.phase b searches no corpus; leave --corpus out" in fault
    assert "searches no index; leave --index out" in refused(recipe(phase="b"), None, place / "index")


def test_a_run_that_goes_on_finds_both_again(place: Path) -> None:
    sources = open_sources(recipe(), NODES, None, place / "index", "mine")
    described = describe_sources(recipe(), sources)
    assert described is not None and described.index is not None
    assert described.index.identity.startswith("dense:")
    manifest = Manifest(
        evigraph="0",
        system="timeaware",
        recipe={},
        recipe_sha256="",
        recipe_origin="",
        prompts={},
        inputs=Inputs(paths=[], sha256="", cases=0),
        models={},
        demonstrations=None,
        literature=described,
        versions={},
    )
    assert recorded_corpus(manifest, recipe()) == (place / "corpus").resolve()
    assert recorded_index(manifest, recipe()) == (place / "index").resolve()
    assert recorded_index(manifest, recipe(retriever="words")) is None
    assert recorded_corpus(manifest, recipe(phase="b")) is None


def test_runs_of_older_versions_have_no_index() -> None:
    older = {"corpus": {"folder": "a", "identity": "b", "documents": 1}, "reader": "llm"}
    assert LiteratureSources.model_validate(older).index is None
