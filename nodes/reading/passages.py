"""From documents to the passages that are read one by one (Vladika and Matthes 2024, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.reading.literature_records import FoundDocument, Passage
from nodes.reading.literature_settings import TopjOrder

SENTENCES_OF_A_DOCUMENT = 3
"""Of `top3`, as in the released code."""

MOST_SIMILAR = 20
"""Sentences that the released code puts into the order of the documents."""

_DIGITS = 4

Similarities = NDArray[np.float64]
"""Of each sentence with the question, shape (sentences,)."""


class DocumentSentence(NamedTuple):
    """A sentence of a document; `position` counts from 0."""

    document: str
    position: int
    text: str


def split_documents(documents: Iterable[FoundDocument], *, lowercase: bool = False) -> list[DocumentSentence]:
    """All sentences, in the order of the documents."""
    import sentencex

    found = []
    for document in documents:
        texts = [text.strip() for text in sentencex.segment("en", document["text"])]
        for position, text in enumerate(text for text in texts if text):
            found.append(DocumentSentence(document["id"], position, text.lower() if lowercase else text))
    return found


def whole_documents(documents: Sequence[FoundDocument], *, lowercase: bool = False) -> list[Passage]:
    """Each abstract as one passage."""
    return [
        Passage(
            id=str(number),
            document=document["id"],
            sentences=None,
            text=document["text"].lower() if lowercase else document["text"],
            similarity=None,
        )
        for number, document in enumerate(documents, 1)
    ]


def best_of_each(sentences: Sequence[DocumentSentence], similarities: Similarities) -> list[Passage]:
    """The three most similar sentences of each document, in their own order, as one passage."""
    by_document: dict[str, list[int]] = {}
    for place, sentence in enumerate(sentences):
        by_document.setdefault(sentence.document, []).append(place)
    chosen = [
        sorted(_most_similar(places, similarities)[:SENTENCES_OF_A_DOCUMENT])
        for places in by_document.values()
    ]
    return [_passage(number, places, sentences, similarities) for number, places in enumerate(chosen, 1)]


def best_of_all(
    sentences: Sequence[DocumentSentence], similarities: Similarities, j: int, order: TopjOrder
) -> list[Passage]:
    """`j` sentences of all documents together, each a passage.

    Args:
        sentences: In the order of the documents, best document first.
        similarities: One for each.
        j: How many.
        order: `paper` takes the most similar ones, most similar first; `released` sorts the 20 most similar
            back into the order of the documents and takes the first, so that few are the earliest sentences
            of the best documents.
    """
    ranked = _most_similar(range(len(sentences)), similarities)
    if order == "released":
        ranked = sorted(ranked[:MOST_SIMILAR])
    return [_passage(number, [place], sentences, similarities) for number, place in enumerate(ranked[:j], 1)]


def _most_similar(places: Iterable[int], similarities: Similarities) -> list[int]:
    """Ties stay in the order of the documents."""
    return sorted(places, key=lambda place: -similarities[place])


def _passage(
    number: int, places: Sequence[int], sentences: Sequence[DocumentSentence], similarities: Similarities
) -> Passage:
    return Passage(
        id=str(number),
        document=sentences[places[0]].document,
        sentences=[sentences[place].position for place in places],
        text=" ".join(sentences[place].text for place in places),
        similarity=round(float(max(similarities[place] for place in places)), _DIGITS),
    )
