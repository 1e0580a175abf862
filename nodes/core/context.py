"""What nodes are given at run time, beside their input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cases.biomedical import QuestionType
from cases.records import Case
from nodes.core.settings import Settings
from prompts import PromptSet
from ranking.entailment import EntailmentModel
from ranking.ranker import Ranker
from ranking.vectors import TextVectors
from retrieval.demonstrations import DemonstrationPool
from retrieval.protocols import DenseIndex, SearchableCorpus
from serving.client import ModelClient


@dataclass(frozen=True, kw_only=True)
class Context:
    """The run-time context of every graph."""

    cases: Mapping[str, Case] = field(metadata={"description": "cases by id; the state refers to them"})
    client: ModelClient = field(metadata={"description": "the one way to ask a model"})
    prompts: PromptSet = field(metadata={"description": "the version of prompts that the recipe names"})
    demonstrations: DemonstrationPool | None = field(
        default=None, metadata={"description": "annotated cases; None where the recipe wants none"}
    )
    ranker: Ranker | None = field(
        default=None, metadata={"description": "scores sentences; None where the recipe wants none"}
    )
    retriever: Ranker | None = field(
        default=None, metadata={"description": "finds sentences of the note; None where nobody retrieves"}
    )
    reranker: Ranker | None = field(
        default=None, metadata={"description": "puts what was found in a better order; None leaves it"}
    )
    vectors: TextVectors | None = field(
        default=None, metadata={"description": "compares sentences by meaning; None where nobody does"}
    )
    acronyms: Mapping[str, str] | None = field(
        default=None, metadata={"description": "long forms by acronym; None writes none out"}
    )
    literature: SearchableCorpus | None = field(
        default=None, metadata={"description": "published documents; None where nobody searches them"}
    )
    index: DenseIndex | None = field(
        default=None, metadata={"description": "documents by their vectors; None where nobody compares them"}
    )
    document_reranker: Ranker | None = field(
        default=None, metadata={"description": "scores whole documents; None leaves them in their order"}
    )
    shots: Mapping[QuestionType, Sequence[Case]] = field(
        default_factory=dict, metadata={"description": "answered questions that prompts may show, by type"}
    )
    entailment: EntailmentModel | None = field(
        default=None, metadata={"description": "judges texts; None where a language model does"}
    )
    settings: Settings = field(
        default_factory=Settings, metadata={"description": "the recipe's values for the nodes"}
    )
