"""Which corpus, index and reranker of documents a recipe needs, takes and refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graph.bioasq import BioasqRecipe
from graph.document_resources import DocumentReranker, PassageReader, SearchedDocuments
from graph.recipe import Recipe, RecipeError
from graph.resource import Opened, Resource, ResourceRequest, open_resources
from graph.timeaware import TimeawareRecipe
from nodes.retrieval.document_texts import CORPUS, DOCUMENT_RERANKER, INDEX
from ranking.errors import RankerError
from retrieval.corpus.build import build
from retrieval.index.build import BuildOptions, build_index
from storage.errors import InputError
from tests.ranking.training.tiny import encoder_on_disk

SAMPLE = Path(__file__).parents[2] / "cases" / "samples" / "health" / "literature.jsonl"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    build([SAMPLE], folder / "corpus")
    (folder / "one.jsonl").write_text('{"id": "a", "text": "gout"}\n')
    build([folder / "one.jsonl"], folder / "other")
    asyncio.run(build_index(folder / "corpus", folder / "index", BuildOptions(embedding="lexical:64")))
    return folder


def recipe(**documents: Any) -> BioasqRecipe:
    return BioasqRecipe.model_validate({"documents": documents})


async def opened(resource: Resource, recipe: Recipe, **places: Path) -> Opened:
    """Nothing where the recipe wants none."""
    found = await open_resources([resource], ResourceRequest(recipe, "mine", places))
    return found.get(resource, Opened())


async def refused(recipe: Recipe, **places: Path) -> str:
    with pytest.raises(RecipeError) as caught:
        await opened(SearchedDocuments(), recipe, **places)
    assert str(caught.value).startswith("recipe mine: ")
    return str(caught.value)


async def test_words_need_a_corpus_alone(place: Path) -> None:
    words = recipe(retriever="words")
    found = await opened(SearchedDocuments(), words, corpus=place / "corpus")
    assert len(found.tools[CORPUS.name]) == 24
    assert found.tools[INDEX.name] is None
    assert "give its folder: --corpus FOLDER" in await refused(words)
    fault = await refused(words, corpus=place / "corpus", index=place / "index")
    assert "documents.retriever is words and searches no index of vectors; leave --index out" in fault


async def test_a_graph_that_knows_words_alone_takes_no_index(place: Path) -> None:
    fault = await refused(TimeawareRecipe(), corpus=place / "corpus", index=place / "index")
    assert "the graph 'timeaware' uses words and searches no index of vectors; leave --index out" in fault


@pytest.mark.parametrize("retriever", ["dense", "hybrid"])
async def test_vectors_need_an_index(retriever: str, place: Path) -> None:
    fault = await refused(recipe(retriever=retriever), corpus=place / "corpus")
    assert "give its folder: --index FOLDER" in fault


async def test_an_index_brings_its_corpus(place: Path) -> None:
    found = await opened(SearchedDocuments(), recipe(), index=place / "index")
    assert len(found.tools[CORPUS.name]) == len(found.tools[INDEX.name]) == 24
    assert found.records["corpus"]["folder"] == str((place / "corpus").resolve())
    assert found.records["index"]["identity"].startswith("dense:")


async def test_an_index_of_another_corpus_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="was built from the corpus"):
        await opened(SearchedDocuments(), recipe(), corpus=place / "other", index=place / "index")


async def test_phase_b_searches_nothing(place: Path) -> None:
    given = recipe(phase="b")
    assert await opened(SearchedDocuments(), given) == Opened()
    fault = await refused(given, corpus=place / "corpus")
    assert "with documents.phase b searches no corpus; leave --corpus out" in fault
    assert "searches no index; leave --index out" in await refused(given, index=place / "index")


async def test_the_recipes_reranker_is_opened_and_recorded() -> None:
    found = await opened(DocumentReranker(), recipe(reranker="bm25"))
    assert found.tools[DOCUMENT_RERANKER.name].identity == "bm25"
    assert found.records == {"document_reranker": {"identity": "bm25"}}


@pytest.mark.parametrize("documents", [{}, {"reranker": "no/such/folder", "phase": "b"}])
async def test_a_reranker_that_nobody_reads_is_not_opened(documents: dict[str, Any]) -> None:
    assert await opened(DocumentReranker(), recipe(**documents)) == Opened()


async def test_a_reranker_that_is_not_there_is_told_before_the_run() -> None:
    with pytest.raises(RankerError, match="folder not found"):
        await opened(DocumentReranker(), recipe(reranker="classifier:no/such/folder"))


async def test_a_model_that_reads_passages_is_recorded_and_opens_nothing() -> None:
    found = await opened(PassageReader(), TimeawareRecipe())
    assert found.tools == {}
    assert found.records == {"reader": {"reader": "llm", "vectors": None, "released_behaviour": []}}


async def test_sentences_are_compared_by_the_encoder_that_the_recipe_names(tmp_path: Path) -> None:
    folder = encoder_on_disk(tmp_path / "spiced")
    reading: dict[str, Any] = {"doc_mode": "top_j", "encoder": folder}
    named = await opened(PassageReader(), TimeawareRecipe.model_validate({"reading": reading}))
    assert named.records["reader"]["vectors"].startswith("spiced@")
    del reading["encoder"]
    packaged = await opened(PassageReader(), TimeawareRecipe.model_validate({"reading": reading}))
    assert packaged.records["reader"]["vectors"].startswith("minilm@")
