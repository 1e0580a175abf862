"""BM25 as the specification has it, whatever the parts."""

from __future__ import annotations

import numpy as np
import pytest
from bm25s import BM25

from cases.texts import hash64
from retrieval.corpus.finish import merge_terms
from retrieval.corpus.postings import Postings, PostingsBuilder, Statistics, scores, terms

TEXTS = (
    "aspirin reduces stroke risk",
    "stroke risk rises with age",
    "vitamin d and bone health",
    "aspirin aspirin bleeding",
)


def postings(*texts: str) -> Postings:
    builder = PostingsBuilder()
    for text in texts:
        builder.add(text)
    return builder.build()


def statistics(*parts: Postings, documents: int, min_df: int = 1) -> Statistics:
    (merged,) = merge_terms(parts)
    kept = merged.frequencies >= min_df
    mean = merged.occurrences[kept].sum() / documents
    return Statistics(documents, mean, merged.terms, merged.frequencies, min_df)


def total(of: Postings, found: np.ndarray, query: list[str], documents: int) -> list[float]:
    sums = np.zeros(documents)
    for term in query:
        (column,) = np.flatnonzero(of.terms == hash64(term))
        span = slice(of.starts[column], of.starts[column + 1])
        sums[of.documents[span]] += found[span]
    return sums.tolist()


@pytest.fixture
def whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stems and no stop words, as in the specification's example."""

    class Stemmer:
        def __init__(self, language: str) -> None:
            self.stemWord = str

    monkeypatch.setattr("Stemmer.Stemmer", Stemmer)
    monkeypatch.setattr("retrieval.corpus.postings._STOP_WORDS", frozenset())


@pytest.mark.usefixtures("whole_words")
def test_the_specification_s_example() -> None:
    part = postings(*TEXTS)
    found = scores(part, statistics(part, documents=4))
    expected = [1.420477, 0.646476, 0.0, 1.039026]
    assert total(part, found, ["aspirin", "stroke"], 4) == pytest.approx(expected, abs=1e-6)


def test_scores_are_those_of_bm25s() -> None:
    tokens = [terms(text) for text in TEXTS]
    index = BM25(k1=1.2, b=0.75, method="atire", idf_method="lucene")
    index.index(tokens, show_progress=False)
    part = postings(*TEXTS)
    found = scores(part, statistics(part, documents=4))
    query = terms("Does aspirin reduce the risk of a stroke?")
    assert total(part, found, query, 4) == pytest.approx(index.get_scores(query).tolist(), rel=1e-6)


def test_a_part_is_scored_by_the_numbers_of_the_whole_corpus() -> None:
    whole, part, rest = postings(*TEXTS), postings(*TEXTS[:2]), postings(*TEXTS[2:])
    of_whole = scores(whole, statistics(whole, documents=4))
    of_part = scores(part, statistics(part, rest, documents=4))
    assert total(part, of_part, ["stroke"], 2) == total(whole, of_whole, ["stroke"], 4)[:2]


def test_rare_terms_neither_score_nor_count_for_length() -> None:
    part = postings("fever cough", "fever rash", "fever")
    numbers = statistics(part, documents=3, min_df=2)
    found = scores(part, numbers)
    assert numbers.mean_length == 1
    assert total(part, found, ["rash"], 3) == [0, 0, 0]
    assert len(set(total(part, found, ["fever"], 3))) == 1


def test_many_ranges_merge_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [postings(*TEXTS[:2]), postings(*TEXTS[1:])]
    (whole,) = merge_terms(parts)
    monkeypatch.setattr("retrieval.corpus.finish._AT_ONCE", 2)
    ranges = list(merge_terms(parts))
    assert len(ranges) > 5
    for together, apart in zip(whole, zip(*ranges, strict=True), strict=True):
        assert np.array_equal(together, np.concatenate(apart))


def test_words_of_a_query_are_those_of_a_document() -> None:
    assert terms("The β-blockers don't  LOWER blood_pressure: 4.5%") == [
        "β",
        "blocker",
        "lower",
        "blood",
        "pressur",
        "4",
        "5",
    ]
