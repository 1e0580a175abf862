"""Texts to terms, terms to postings, and the scores of BM25 that follow from them. Pure."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass

import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cases.texts import hash64

_WORD = re.compile(r"[^\W_]+")
# The list of NLTK. "don't" is two words here, and both are in the list.
_STOP_WORDS = frozenset(STOPWORDS_EN_PLUS)


def words(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return _WORD.findall(text.lower())


def terms(text: str) -> list[str]:
    """The stems of the words of `text`, in order, without stop words."""
    # A stemmer must not be shared by threads, and is made in a microsecond.
    stems: list[str] = Stemmer.Stemmer("english").stemWords(
        [word for word in words(text) if word not in _STOP_WORDS]
    )
    return stems


class Vocabulary:
    """Numbers the terms of many texts, from 0 in the order of their first use."""

    STOPPED = -1
    """In place of a stop word."""

    def __init__(self) -> None:
        self._words = _Words()

    def number(self, text: str) -> array[int]:
        """The number of each word of `text`; `STOPPED` for stop words."""
        return array("i", map(self._words.__getitem__, words(text)))

    def hashes(self) -> list[int]:
        """A hash of each term, in the order of their numbers."""
        return [hash64(term) for term in self._words.terms]


class _Words(dict[str, int]):
    """Each word that was met to the number of its stem; a stem is found once a word."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, int] = {}
        self._stem = Stemmer.Stemmer("english").stemWord

    def __missing__(self, word: str) -> int:
        if word in _STOP_WORDS:
            number = Vocabulary.STOPPED
        else:
            number = self.terms.setdefault(self._stem(word), len(self.terms))
        self[word] = number
        return number


K1 = 1.2
B = 0.75

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Postings:
    """The documents of one part by term.

    Attributes:
        terms: Hashes of the terms, ascending; shape (terms,).
        starts: Where the postings of each term begin, and the end of the last; shape (terms + 1,).
        documents: Numbers of documents within the part, ascending for each term; shape (postings,).
        counts: How often each of them holds the term; shape (postings,).
    """

    terms: Hashes
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    counts: NDArray[np.int32]

    @property
    def document_frequencies(self) -> NDArray[np.int64]:
        """Documents that hold each term; shape (terms,)."""
        return np.diff(self.starts)

    @property
    def occurrences(self) -> NDArray[np.int64]:
        """How often each term occurs in all documents; shape (terms,)."""
        sums = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        return np.diff(sums[self.starts])


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the whole corpus for scoring.

    Attributes:
        documents: Their number, those without any term included.
        mean_length: Terms of a document on average; terms that are left out do not count.
        terms: Hashes of the terms, ascending; shape (terms,).
        frequencies: Documents that hold each; shape (terms,).
    """

    documents: int
    mean_length: float
    terms: Hashes
    frequencies: NDArray[np.int64]
    min_df: int = 1


class PostingsBuilder:
    """Takes the texts of one part in their order."""

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()
        self._numbers = array("i")
        self._ends = array("q", [0])

    def add(self, text: str) -> None:
        self._numbers.extend(self._vocabulary.number(text))
        self._ends.append(len(self._numbers))

    def build(self) -> Postings:
        hashes = np.array(self._vocabulary.hashes(), dtype=np.uint64)
        order = np.argsort(hashes)
        column = np.empty(order.size, dtype=np.int32)
        column[order] = np.arange(order.size, dtype=np.int32)
        numbers = np.frombuffer(self._numbers, dtype=np.int32)
        kept = numbers != Vocabulary.STOPPED
        ends = np.concatenate([[0], np.cumsum(kept)])[np.frombuffer(self._ends, dtype=np.int64)]
        columns = column[numbers[kept]]
        shape = (len(self._ends) - 1, order.size)
        by_term = csr_array((np.ones(columns.size, dtype=np.int32), columns, ends), shape=shape).tocsc()
        by_term.sum_duplicates()
        return Postings(
            terms=hashes[order],
            starts=by_term.indptr.astype(np.int64),
            documents=by_term.indices.astype(np.int32),
            counts=by_term.data.astype(np.int32),
        )


def scores(postings: Postings, statistics: Statistics) -> NDArray[np.float32]:
    """BM25 of each posting, idf * tf (k1 + 1) / (tf + k1 (1 - b + b length / mean)); shape (postings,).

    The idf is ln(1 + (N - df + 0.5) / (df + 0.5)). A posting of a term that is left out has 0.
    """
    places = np.searchsorted(statistics.terms, postings.terms)
    frequencies = statistics.frequencies[places]
    kept = frequencies >= statistics.min_df
    idf = np.log1p((statistics.documents - frequencies + 0.5) / (frequencies + 0.5)) * kept
    sizes = postings.document_frequencies
    counts = postings.counts.astype(np.float64)
    present = np.repeat(kept, sizes)
    size = int(postings.documents.max(initial=-1)) + 1
    lengths = np.bincount(postings.documents, weights=counts * present, minlength=size)
    norms = K1 * (1 - B + B * lengths / (statistics.mean_length or 1.0))
    found = np.repeat(idf, sizes) * counts * (K1 + 1) / (counts + norms[postings.documents])
    return found.astype(np.float32)
