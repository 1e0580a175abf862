"""Resources of graphs on published documents: a corpus, its index, readers, answered questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from cases.biomedical import QuestionType
from cases.load import find_cases, packaged_path
from cases.records import Case
from graph.resource import Opened, Record, Resource, ResourceRequest
from nodes.answer.exact_reply import QUESTION_TYPES, ExactSettings, type_of
from nodes.answer.question_prompt import ANSWERED_QUESTIONS, can_be_shown
from nodes.core.context import VECTORS
from nodes.core.recipe import Recipe
from nodes.reading.read_passages import ENTAILMENT
from nodes.reading.settings import ReadingSettings
from nodes.retrieval.document_settings import DocumentSettings
from nodes.retrieval.document_texts import CORPUS, DOCUMENT_RERANKER, INDEX
from ranking.encoding.vectors import EncoderVectors, shared_vectors
from ranking.rankers.load import load_ranker
from retrieval.protocols import DenseIndex, DocumentCollection
from storage.errors import InputError
from weights.loading import loading


class SearchedDocuments(Resource):
    """A corpus that is searched by words, an index of it that is searched by vectors, or both.

    An index names its corpus, so that its folder is enough.
    """

    places: ClassVar[tuple[str, ...]] = ("corpus", "index")
    # A corpus may move.
    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "corpus": ("identity", "documents"),
        "index": ("identity",),
    }

    def reads(self, recipe: Recipe) -> object:
        settings = recipe.find_section(DocumentSettings)
        if settings is None:
            return "words"
        return settings.retriever if settings.finds else None

    def needs(self, place: str, recipe: Recipe) -> str:
        return f"the graph {recipe.system!r} with documents.phase b searches no {place}; leave --{place} out"

    async def open(self, request: ResourceRequest) -> Opened:
        corpus, index = request.places.get("corpus"), request.places.get("index")
        _refuse_unfit_index(request, index)
        if corpus is None and index is None:
            raise request.refuse(
                f"the graph {request.recipe.system!r} searches a corpus; give its folder:"
                " --corpus FOLDER (build one: evigraph corpus build FILES --out FOLDER)"
            )
        # Imports the index of words.
        from retrieval.corpus.corpus import Corpus

        opened = None
        if corpus is not None:
            with loading(f"the corpus {corpus.name}"):
                opened = Corpus.open(corpus)
        vectors: DenseIndex | None = None
        records: dict[str, Record] = {}
        if index is not None:
            from retrieval.index.index import Index

            with loading(f"the index {index.name}"):
                found = Index.open(index, opened)
            vectors, opened = found, found.corpus
            records["index"] = _record(index, found)
        assert opened is not None
        records = {"corpus": _record(opened.folder, opened), **records}
        return Opened({CORPUS.name: opened, INDEX.name: vectors}, records)

    def recorded_places(self, records: Mapping[str, Record], recipe: Recipe) -> dict[str, Path]:
        settings = recipe.find_section(DocumentSettings)
        compares = settings is not None and settings.compares_vectors
        read = ("corpus", "index") if compares else ("corpus",)
        return {name: Path(records[name]["folder"]) for name in read if name in records}


def _refuse_unfit_index(request: ResourceRequest, index: Path | None) -> None:
    settings = request.recipe.find_section(DocumentSettings)
    compares = settings is not None and settings.compares_vectors
    if settings is not None and compares and index is None:
        raise request.refuse(
            f"documents.retriever is {settings.retriever}, which searches an index of vectors; give its"
            " folder: --index FOLDER (build one: evigraph index build CORPUS --out FOLDER), or set"
            " documents.retriever to words"
        )
    if index is not None and not compares:
        reason = f"the graph {request.recipe.system!r} uses words"
        if settings is not None:
            reason = "documents.retriever is words"
        raise request.refuse(f"{reason} and searches no index of vectors; leave --index out")


def _record(folder: Path, searched: DocumentCollection) -> Record:
    return {
        "folder": str(folder.resolve()),
        "identity": searched.identity,
        "documents": len(searched),
    }


class PassageReader(Resource):
    """Reader of passages, if not a language model, and encoder that compares sentences before."""

    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"reader": ("reader", "vectors")}

    def reads(self, recipe: Recipe) -> object:
        return recipe.section(ReadingSettings)

    async def open(self, request: ResourceRequest) -> Opened:
        settings = request.recipe.section(ReadingSettings)
        tools: dict[str, Any] = {}
        record = {"reader": settings.reader, "vectors": None, "released_behaviour": list(settings.released)}
        if not settings.asks_model:
            from ranking.rankers.entailment import EntailmentReader

            reader = tools[ENTAILMENT.name] = EntailmentReader(settings.reader, settings.input)
            record["reader"] = reader.identity
        if settings.compares:
            encoder = settings.encoder
            vectors = shared_vectors() if encoder is None else EncoderVectors(encoder)
            tools[VECTORS.name] = vectors
            record["vectors"] = vectors.identity
        return Opened(tools, {"reader": record})


class DocumentReranker(Resource):
    """Ranker that scores whole documents."""

    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"document_reranker": ("identity",)}

    def reads(self, recipe: Recipe) -> object:
        settings = recipe.section(DocumentSettings)
        return settings.reranker if settings.finds else None

    async def open(self, request: ResourceRequest) -> Opened:
        name = request.recipe.section(DocumentSettings).reranker
        assert name is not None
        ranker = load_ranker(name)
        return Opened({DOCUMENT_RERANKER.name: ranker}, {"document_reranker": {"identity": ranker.identity}})


class AnsweredQuestions(Resource):
    """Questions with answers that prompts show: from the user's file, or the packaged samples."""

    places: ClassVar[tuple[str, ...]] = ("demos",)
    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"answered_questions": ("sha256", "count")}

    def reads(self, recipe: Recipe) -> object:
        settings = recipe.section(ExactSettings)
        return settings if settings.shots and recipe.answers else None

    def needs(self, place: str, recipe: Recipe) -> str:
        return f"its prompts show no answered questions: set exact.shots above 0, or leave --{place} out"

    async def open(self, request: ResourceRequest) -> Opened:
        file = request.places.get("demos")
        path = file or packaged_path("bioasq/questions.json")
        source = find_cases([path])
        usable = [case for case in source if isinstance(case, Case) and can_be_shown(case)]
        if file is not None and not usable:
            raise InputError(
                path,
                "none of its questions can be shown",
                "One needs a type, snippets, an ideal answer and, unless it is a summary, an exact answer",
            )
        by_type = group_by_type(usable, {case.id for case in request.running})
        record = {
            "path": str(path.resolve()),
            "sha256": source.digest(),
            "count": sum(map(len, by_type.values())),
        }
        return Opened({ANSWERED_QUESTIONS.name: by_type}, {"answered_questions": record})

    def recorded_places(self, records: Mapping[str, Record], recipe: Recipe) -> dict[str, Path]:
        found = records.get("answered_questions")
        return {"demos": Path(found["path"])} if found else {}


def group_by_type(cases: Iterable[Case], excluded: Collection[str]) -> dict[QuestionType, list[Case]]:
    """Questions by their type, those with an excluded id left out."""
    found: dict[QuestionType, list[Case]] = defaultdict(list)
    for case in cases:
        type_ = type_of(case)
        if case.id not in excluded and type_ is not None:
            found[type_].append(case)
    return {type_: found[type_] for type_ in QUESTION_TYPES if type_ in found}
