"""Input of a training step from examples: a document's token ids, its queries, their labels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranking.examples import Example
from ranking.models.config import ModelConfig
from ranking.models.tokens import TokenIds, tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ranking.models.model import EvidenceModel

_AFTER_BACKBONE = 8


@dataclass(frozen=True, slots=True)
class Document:
    """One document with all its queries.

    Attributes:
        examples: Example of each query.
        places: Of each sentence, its place in the examples' labels; not all where a document was shortened.
    """

    sentences: tuple[TokenIds, ...]
    queries: tuple[TokenIds, ...]
    examples: tuple[Example, ...]
    places: tuple[int, ...]

    def labels(self, query: int) -> list[bool]:
        labels = self.examples[query].labels
        assert labels is not None
        return [labels[place] for place in self.places]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Prepared documents, and counts of omissions.

    Attributes:
        cut_sentences: How many sentences are longer than the model's limit and lose their end.
        cut_queries: How many queries are.
        shortened: How many documents have more sentences than a training step takes.
    """

    documents: tuple[Document, ...]
    cut_sentences: int = 0
    cut_queries: int = 0
    shortened: int = 0


def prepare(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    config: ModelConfig,
    *,
    max_sentences: int | None = None,
    seed: int = 0,
) -> Prepared:
    """Group examples by document and read them as tokens.

    Examples without sentences are left out.

    Args:
        examples: In any order.
        tokenizer: Of the backbone.
        config: Limits of length.
        max_sentences: Of a longer document, every sentence that is evidence for some query and a random
            choice of the others stays, in order; None keeps all.
        seed: Of that choice.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Example]] = {}
    for example in examples:
        if example.sentences:
            groups.setdefault((example.document_id, example.sentences), []).append(example)
    documents = []
    cut_sentences = cut_queries = shortened = 0
    for (name, texts), of_document in groups.items():
        places = _places(of_document, max_sentences, random.Random(f"{seed}:{name}"))  # noqa: S311
        shortened += len(places) < len(texts)
        sentences = tokenize(tokenizer, [texts[place] for place in places], config.max_sentence_tokens)
        queries = tokenize(tokenizer, [example.query for example in of_document], config.max_query_tokens)
        cut_sentences += len(sentences.cut)
        cut_queries += len(queries.cut)
        documents.append(Document(sentences.ids, queries.ids, tuple(of_document), places))
    return Prepared(tuple(documents), cut_sentences, cut_queries, shortened)


def query_groups(document: Document, max_pairs: int, model: EvidenceModel[Any]) -> list[range]:
    """Queries that are scored together, so that their pairs with the sentences fit into memory.

    Where pairs meet after the backbone they take a fraction of the memory, and each further pass would encode
    the document again.
    """
    limit = max_pairs if model.source_type is None else _AFTER_BACKBONE * max_pairs
    at_once = max(1, limit // len(document.sentences))
    count = len(document.queries)
    return [range(start, min(start + at_once, count)) for start in range(0, count, at_once)]


def _places(
    examples: Sequence[Example], max_sentences: int | None, chooser: random.Random
) -> tuple[int, ...]:
    count = len(examples[0].sentences)
    if max_sentences is None or count <= max_sentences:
        return tuple(range(count))
    evidence = {place for example in examples for place, label in enumerate(example.labels or ()) if label}
    kept = sorted(evidence)[:max_sentences]
    others = [place for place in range(count) if place not in evidence]
    return tuple(sorted([*kept, *chooser.sample(others, max_sentences - len(kept))]))
