"""Texts to terms: lower case, without punctuation, split at blanks, without English stop words, stemmed.

As retriv does it for Vladika and Matthes (2024), with letters and figures of every script as words.
"""

from __future__ import annotations

import re
from array import array

import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from cases.hashes import hash64

_WORD = re.compile(r"[^\W_]+")
# The list of NLTK. "don't" is two words here, and both are in the list.
_STOP_WORDS = frozenset(STOPWORDS_EN_PLUS)


def words(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return _WORD.findall(text.lower())


def terms(text: str) -> list[str]:
    """The stems of the words of `text` that are no stop words, in their order."""
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
        """Nothing is known yet."""
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
