"""What a graph that answers from literature needs: a corpus, a reader, and vectors of sentences."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from graph.recipe import Recipe, RecipeError
from ranking.entailment_seam import EntailmentModel
from ranking.vectors import TextVectors, shared_vectors
from runs.manifest import Corpus, LiteratureSources, Manifest
from serving.literature.seam import Literature

SEARCH = "search_literature"
"""The node that a corpus is for."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Opened and checked; None is what the recipe does not need. A corpus comes with its folder."""

    literature: Literature | None = None
    folder: Path | None = None
    entailment: EntailmentModel | None = None
    vectors: TextVectors | None = None


def open_sources(recipe: Recipe, nodes: Collection[str], corpus: Path | None, origin: str) -> Sources:
    """Open what the recipe reads from.

    Args:
        recipe: What is wanted.
        nodes: Of its graph.
        corpus: Folder of the corpus, None where the user gave none.
        origin: Where the recipe came from, for messages.

    Raises:
        RecipeError: The graph searches and there is no corpus, or the other way round.
        InputError: The corpus.
        RankerError, WeightsError: The classifier that reads, or the vectors.
    """
    if SEARCH not in nodes:
        if corpus is not None:
            raise RecipeError(
                f"recipe {origin}: the graph {recipe.system!r} searches no corpus; leave --corpus out"
            )
        return Sources()
    if corpus is None:
        raise RecipeError(
            f"recipe {origin}: the graph {recipe.system!r} searches a corpus; give its folder:"
            " --corpus FOLDER (build one: evigraph corpus build FILES --out FOLDER)"
        )
    # Imports the index.
    from serving.literature.corpus import Corpus as OpenedCorpus

    return Sources(
        literature=OpenedCorpus.open(corpus),
        folder=corpus,
        entailment=None if recipe.reading.asks_model else _classifier(recipe),
        vectors=shared_vectors() if recipe.reading.compares else None,
    )


def recorded_corpus(manifest: Manifest) -> Path | None:
    """Where a run's corpus was when it began."""
    return Path(manifest.literature.corpus.folder) if manifest.literature else None


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
        reader=sources.entailment.identity if sources.entailment else "llm",
        vectors=sources.vectors.identity if sources.vectors else None,
        released_behaviour=list(recipe.reading.released),
    )


def _classifier(recipe: Recipe) -> EntailmentModel:
    from ranking.entailment import EntailmentReader

    return EntailmentReader(recipe.reading.reader, recipe.reading.input)
