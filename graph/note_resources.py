"""Resources of graphs on notes: annotated cases to show, rankers of sentences, sentence vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from cases.load import CaseSource, packaged_cases
from cases.records import Case
from cases.texts import json_sha256
from graph.resource import Opened, Record, Resource, ResourceRequest
from nodes.citing.attribute_answer import ATTRIBUTE_ANSWER
from nodes.citing.citations import CitationSettings
from nodes.core.context import VECTORS
from nodes.core.recipe import Recipe
from nodes.evidence.rank_evidence import RANK_EVIDENCE, RANKER
from nodes.evidence.settings import EvidenceSettings
from nodes.retrieval.demonstration_search import POOL
from nodes.retrieval.retrieve_sentences import ACRONYMS, RERANKER, RETRIEVER, RetrievalSettings
from ranking.encoding.vectors import shared_vectors
from ranking.rankers.load import load_ranker
from ranking.rankers.prepared import load_acronyms
from retrieval.embeddings import DEFAULT_EMBEDDING, Embedder, connect_embedder
from retrieval.pools.folder import MANIFEST, build_pool
from retrieval.pools.pool import DemonstrationPool
from storage.locks import FileLock, LockedError
from weights.registry import cache_root


class PoolRecipe(Recipe):
    """A recipe whose prompts may show annotated cases.

    Attributes:
        embedding: What demonstrations are compared with.
    """

    embedding: str = DEFAULT_EMBEDDING

    @property
    def shows_demonstrations(self) -> bool:
        """Whether any prompt shows demonstrations, for which alone the pool is opened."""
        return True


async def open_pool(folder: Path | None, embedding: str, notify: Callable[[str], None]) -> DemonstrationPool:
    """The pool in a folder, or the packaged sample pool, which is built once for each embedding.

    Raises:
        ModelError: The embedding or the pool cannot be used.
    """
    embedder = connect_embedder(embedding)
    if folder is None:
        source = packaged_cases("pool.xml")
        identity = f"{embedder.identity}-{source.check().sha256[:12]}"
        safe = "".join(letter if letter.isalnum() else "-" for letter in identity)
        folder = cache_root() / "demonstrations" / safe
        if not (folder / MANIFEST).is_file():
            await _build_once(folder, source, embedder, notify)
    return DemonstrationPool(folder, embedder)


async def _build_once(
    folder: Path, source: CaseSource, embedder: Embedder, notify: Callable[[str], None]
) -> None:
    """Build the pool, or wait for the process that does: the first to end would remove the other's store."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = await _wait_for_lock(folder.with_name(f".{folder.name}.lock"), notify)
    try:
        if not (folder / MANIFEST).is_file():
            notify("building the sample pool of demonstrations (once)")
            await build_pool(folder, [case for case in source if isinstance(case, Case)], embedder)
    finally:
        lock.close()


async def _wait_for_lock(path: Path, notify: Callable[[str], None]) -> FileLock:
    told = False
    while True:
        try:
            return FileLock(path)
        except LockedError as error:
            if not told:
                notify(f"waiting for the sample pool of demonstrations: {error}")
            told = True
            await asyncio.sleep(0.1)


class Pool(Resource):
    """Annotated cases, from a pool that the user built or the packaged samples."""

    places: ClassVar[tuple[str, ...]] = ("demos",)
    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"demonstrations": ("sha256", "embedder")}

    def reads(self, recipe: Recipe) -> object:
        return recipe.embedding if isinstance(recipe, PoolRecipe) and recipe.shows_demonstrations else None

    def needs(self, place: str, recipe: Recipe) -> str:
        return f"its prompts show no demonstrations; leave --{place} out"

    async def open(self, request: ResourceRequest) -> Opened:
        assert isinstance(request.recipe, PoolRecipe)
        pool = await open_pool(request.places.get("demos"), request.recipe.embedding, request.notify)
        evidence = request.recipe.find_section(EvidenceSettings)
        listed = () if evidence is None else evidence.demonstrations_from
        if listed and (missing := sorted({*listed} - {one.case_id for one in pool.neighbours()})):
            raise request.refuse(
                f"evidence.demonstrations_from: the pool {pool.folder} has no case {missing[0]!r}"
            )
        return Opened({POOL.name: pool}, {"demonstrations": pool.record})

    def recorded_places(self, records: Mapping[str, Record], recipe: Recipe) -> dict[str, Path]:
        found = records.get("demonstrations")
        return {"demos": Path(found["folder"])} if found else {}


class EvidenceRanker(Resource):
    """A ranker that votes on evidence together with a model, or in its place."""

    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"ranker": ("name", "identity", "cutoff")}

    def reads(self, recipe: Recipe) -> object:
        settings = recipe.section(EvidenceSettings)
        return None if RANK_EVIDENCE.is_off(recipe) else (settings.ranker, settings.cutoff)

    async def open(self, request: ResourceRequest) -> Opened:
        settings = request.recipe.section(EvidenceSettings)
        ranker = load_ranker(settings.ranker)
        record = {
            "name": settings.ranker,
            "identity": ranker.identity,
            "cutoff": (settings.cutoff or ranker.cutoff).model_dump(),
        }
        return Opened({RANKER.name: ranker}, {"ranker": record})


class SentenceRetrieval(Resource):
    """Retriever of note sentences for a query, and encoder that compares an answer with them."""

    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "retrieval": ("retriever", "reranker", "vectors", "acronyms_sha256")
    }

    def reads(self, recipe: Recipe) -> object:
        return recipe.section(RetrievalSettings), recipe.section(CitationSettings)

    async def open(self, request: ResourceRequest) -> Opened:
        wanted = request.recipe.section(RetrievalSettings)
        attributes = not ATTRIBUTE_ANSWER.is_off(request.recipe)
        compares = attributes and request.recipe.section(CitationSettings).weights.semantic
        retriever = load_ranker(wanted.retriever)
        reranker = None if wanted.reranker is None else load_ranker(wanted.reranker)
        vectors = shared_vectors() if compares else None
        acronyms = None
        if wanted.expand_acronyms:
            acronyms = load_acronyms(Path(wanted.acronyms) if wanted.acronyms else None)
        tools: dict[str, Any] = {
            RETRIEVER.name: retriever,
            RERANKER.name: reranker,
            VECTORS.name: vectors,
            ACRONYMS.name: acronyms,
        }
        record = {
            "retriever": retriever.identity,
            "reranker": reranker.identity if reranker else None,
            "vectors": vectors.identity if vectors else None,
            "acronyms_sha256": None if acronyms is None else json_sha256(acronyms),
        }
        return Opened(tools, {"retrieval": record})
