from __future__ import annotations

import numpy as np

from nodes.reading.select_passages import (
    DocumentSentence,
    best_of_all,
    best_of_each,
    split_documents,
    whole_documents,
)
from tests.nodes.literature_builders import document, found

SENTENCES = [DocumentSentence(f"d{number // 4}", number % 4, f"s{number}") for number in range(8)]
SIMILARITIES = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.7, 0.05])


def test_top3_keeps_the_order_of_the_abstract() -> None:
    chosen = best_of_each(SENTENCES, SIMILARITIES)
    assert [one["text"] for one in chosen] == ["s1 s2 s3", "s4 s5 s6"]
    assert [(one["document"], one["sentences"]) for one in chosen] == [("d0", [1, 2, 3]), ("d1", [0, 1, 2])]
    assert [one["similarity"] for one in chosen] == [0.9, 0.7]


def test_the_paper_reads_the_most_similar_sentences_first() -> None:
    chosen = best_of_all(SENTENCES, SIMILARITIES, 3, "paper")
    assert [one["text"] for one in chosen] == ["s1", "s3", "s5"]
    assert [one["id"] for one in chosen] == ["1", "2", "3"]


def test_the_released_code_reads_the_earliest_of_the_twenty_most_similar() -> None:
    sentences = [DocumentSentence("d", number, f"s{number}") for number in range(25)]
    rising = np.arange(25) / 25
    chosen = best_of_all(sentences, rising, 3, "released")
    assert [one["text"] for one in chosen] == ["s5", "s6", "s7"]


def test_equally_similar_sentences_stay_in_the_order_of_the_documents() -> None:
    chosen = best_of_all(SENTENCES, np.ones(8), 8, "paper")
    assert [one["text"] for one in chosen] == [f"s{number}" for number in range(8)]


def test_a_document_of_one_sentence_gives_a_passage_of_one() -> None:
    documents = found(document("a", "One sentence."), document("b", "A first. A second."))
    sentences = split_documents(documents)
    chosen = best_of_each(sentences, np.ones(len(sentences)))
    assert [one["text"] for one in chosen] == ["One sentence.", "A first. A second."]


def test_sentences_are_put_into_lower_case_only_where_asked() -> None:
    (one,) = split_documents(found(document("a", "Mint Tea.")), lowercase=True)
    assert one.text == "mint tea."
    assert whole_documents(found(document("a", "Mint Tea.")))[0]["text"] == "Mint Tea."
