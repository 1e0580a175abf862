"""What a graph that answers from literature needs: a corpus, a reader, and vectors of sentences."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from graph.recipe import Recipe, RecipeError
from ranking.entailment import EntailmentModel
from ranking.vectors import TextVectors, shared_vectors
from retrieval.protocols import DenseIndex, SearchableCorpus
from runs.manifest import Corpus, DocumentIndex, LiteratureSources, Manifest

SEARCH = "search_literature"
"""The node that a corpus is for."""

RETRIEVAL = "retrieve_documents"
"""The node that a corpus and, by the recipe, an index of it are for."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Opened and checked; None is what the recipe does not need. Corpus and index come with their folders."""

    literature: SearchableCorpus | None = None
    folder: Path | None = None
    index: DenseIndex | None = None
    index_folder: Path | None = None
    entailment: EntailmentModel | None = None
    vectors: TextVectors | None = None


def open_sources(
    recipe: Recipe, nodes: Collection[str], corpus: Path | None, index: Path | None, origin: str
) -> Sources:
    """Open what the recipe reads from.

    Args:
        recipe: What is wanted.
        nodes: Of its graph.
        corpus: Folder of the corpus; None where the user gave none, which takes the one that an index names.
        index: Folder of the index of vectors, None where the user gave none.
        origin: Where the recipe came from, for messages.

    Raises:
        RecipeError: The graph searches and there is no corpus or no index, or the other way round.
        InputError: The corpus or the index, or they do not belong together.
        ModelError, CallError: The store or the embedder of the index.
        RankerError, WeightsError: The classifier that reads, or the vectors.
    """
    retrieves = RETRIEVAL in nodes and recipe.documents.finds
    if not retrieves and SEARCH not in nodes:
        given = [name for name, folder in (("corpus", corpus), ("index", index)) if folder is not None]
        if given:
            reason = " with documents.phase b" if RETRIEVAL in nodes else ""
            raise RecipeError(
                f"recipe {origin}: the graph {recipe.system!r}{reason} searches no {given[0]};"
                f" leave --{given[0]} out"
            )
        return Sources()
    compares = retrieves and compares_vectors(recipe)
    _refuse_unfit_index(recipe, retrieves, compares, index, origin)
    if corpus is None and index is None:
        raise RecipeError(
            f"recipe {origin}: the graph {recipe.system!r} searches a corpus; give its folder:"
            " --corpus FOLDER (build one: evigraph corpus build FILES --out FOLDER)"
        )
    # Imports the index of words.
    from retrieval.corpus.corpus import Corpus as OpenedCorpus

    opened = None if corpus is None else OpenedCorpus.open(corpus)
    vectors = None
    if index is not None:
        from retrieval.index.index import Index

        vectors = Index.open(index, opened)
        opened = vectors.corpus
    assert opened is not None
    reads = SEARCH in nodes
    return Sources(
        literature=opened,
        folder=opened.folder,
        index=vectors,
        index_folder=index,
        entailment=_classifier(recipe) if reads and not recipe.reading.asks_model else None,
        vectors=shared_vectors() if reads and recipe.reading.compares else None,
    )


def _refuse_unfit_index(
    recipe: Recipe, retrieves: bool, compares: bool, index: Path | None, origin: str
) -> None:
    if compares and index is None:
        raise RecipeError(
            f"recipe {origin}: documents.retriever is {recipe.documents.retriever}, which searches an index"
            " of vectors; give its folder: --index FOLDER (build one: evigraph index build CORPUS --out"
            " FOLDER), or set documents.retriever to words"
        )
    if index is not None and not compares:
        reason = "documents.retriever is words" if retrieves else f"the graph {recipe.system!r} uses words"
        raise RecipeError(f"recipe {origin}: {reason} and searches no index of vectors; leave --index out")


def recorded_corpus(manifest: Manifest, recipe: Recipe) -> Path | None:
    """Where a run's corpus was when it began; None for a recipe that searches for no documents."""
    if manifest.literature is None or not recipe.documents.finds:
        return None
    return Path(manifest.literature.corpus.folder)


def recorded_index(manifest: Manifest, recipe: Recipe) -> Path | None:
    """Where a run's index of vectors was when it began; None for a recipe that compares none."""
    found = manifest.literature.index if manifest.literature else None
    return Path(found.folder) if found and compares_vectors(recipe) else None


def compares_vectors(recipe: Recipe) -> bool:
    """Whether documents are searched for by their vectors, in a graph that retrieves them at all."""
    return recipe.documents.finds and recipe.documents.retriever != "words"


def describe_sources(recipe: Recipe, sources: Sources) -> LiteratureSources | None:
    """What a run records of them."""
    if sources.literature is None or sources.folder is None:
        return None
    return LiteratureSources(
        corpus=Corpus(
            folder=str(sources.folder.resolve()),
            identity=sources.literature.identity,
            documents=len(sources.literature),
        ),
        index=_describe_index(sources),
        reader=sources.entailment.identity if sources.entailment else "llm",
        vectors=sources.vectors.identity if sources.vectors else None,
        released_behaviour=list(recipe.reading.released),
    )


def _describe_index(sources: Sources) -> DocumentIndex | None:
    if sources.index is None or sources.index_folder is None:
        return None
    return DocumentIndex(
        folder=str(sources.index_folder.resolve()),
        identity=sources.index.identity,
        documents=len(sources.index),
    )


def _classifier(recipe: Recipe) -> EntailmentModel:
    from ranking.entailment import EntailmentReader

    return EntailmentReader(recipe.reading.reader, recipe.reading.input)
