"""Medical concepts in texts: by a QuickUMLS index, or by a list of terms of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cases.errors import InputError
from cases.files import opened
from evals.metrics.semantic_types import ACCEPTED_TYPES

_WINDOW = 5
"""Tokens that a term has at most, as in the official scorers."""

_TOKEN = re.compile(r"\w+")


class Concept(NamedTuple):
    """A term as the vocabulary has it, and the identifier of a concept that it names."""

    term: str
    cui: str


class ConceptMatcher(Protocol):
    """Finds concepts in a text."""

    def match(self, text: str) -> list[Concept]:
        """All concepts in the text; a term that names several gives as many."""


class QuickUmlsIndex(Protocol):
    """The part of `quickumls.QuickUMLS` that is used."""

    def match(self, text: str) -> Sequence[Sequence[Mapping[str, Any]]]:
        """For each place found its candidates, with `term` and `cui` among their keys."""


class QuickUmlsMatcher:
    """Concepts by QuickUMLS (Soldaini and Goharian, 2016)."""

    def __init__(self, index: QuickUmlsIndex) -> None:
        """Use an opened index, such as that of `open_quickumls`."""
        self._index = index

    def match(self, text: str) -> list[Concept]:
        """Every candidate of every place, under the vocabulary's term and not under the text's own words."""
        return [
            Concept(candidate["term"], candidate["cui"])
            for place in self._index.match(text)
            for candidate in place
        ]


def open_quickumls(folder: Path) -> QuickUmlsMatcher:
    """Open an index with the options of the official scorers: exact terms of up to 5 tokens, 66 types.

    The official call asks QuickUMLS to ignore syntax as well, which version 1.4.2 does not heed.
    """
    from quickumls import QuickUMLS

    return QuickUmlsMatcher(
        QuickUMLS(str(folder), window=_WINDOW, threshold=1, accepted_semtypes=set(ACCEPTED_TYPES))
    )


class TermList:
    """Concepts by a list of terms, whatever their upper and lower case and their punctuation.

    Of terms that overlap in a text the longest is taken, and the first of equally long ones, which is how
    QuickUMLS chooses among exact matches.
    """

    def __init__(self, cuis: Mapping[str, Sequence[str]]) -> None:
        """Take the concepts of each term; terms in the form that `normalized` gives."""
        self._cuis = cuis

    def match(self, text: str) -> list[Concept]:
        """All concepts in the text, the longest terms first."""
        tokens = [(found.start(), found.end()) for found in _TOKEN.finditer(text)]
        taken: set[int] = set()
        concepts = []
        for places, term in sorted(self._found(text, tokens), key=lambda found: -_width(tokens, found[0])):
            if taken.isdisjoint(places):
                taken.update(places)
                concepts += [Concept(term, cui) for cui in self._cuis[term]]
        return concepts

    def _found(self, text: str, tokens: Sequence[tuple[int, int]]) -> Iterator[tuple[range, str]]:
        words = [text[start:end].casefold() for start, end in tokens]
        for first in range(len(words)):
            for end in range(first + 1, min(first + _WINDOW, len(words)) + 1):
                if (term := " ".join(words[first:end])) in self._cuis:
                    yield range(first, end), term


def normalized(term: str) -> str:
    """The letters and digits of a term, case-folded, with one space between words."""
    return " ".join(_TOKEN.findall(term.casefold()))


def read_terms(path: Path) -> TermList:
    """Read a file of lines `term<TAB>CUI`, in UTF-8; a term of several concepts has a line for each.

    Empty lines and a first line `term<TAB>CUI` are skipped.

    Raises:
        InputError: the file cannot be read, or a line is not of this form.
    """
    with opened(path) as file:
        lines = file.read().split(b"\n")
    cuis: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise InputError(path, f"line {number}: not UTF-8", "Save the file as UTF-8") from error
        if text and not (number == 1 and text.casefold() == "term\tcui"):
            term, cui = _entry(path, number, text)
            known = cuis.setdefault(term, [])
            if cui not in known:
                known.append(cui)
    if not cuis:
        raise InputError(path, "no term in it", "Write a term, a tab and its CUI on each line")
    return TermList(cuis)


def _entry(path: Path, number: int, line: str) -> tuple[str, str]:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) != 2 or not all(fields):
        fault = f"line {number}: not a term, a tab and a CUI"
        raise InputError(path, fault, f"Write it as term<TAB>CUI; it has {len(fields)} field(s)")
    term = normalized(fields[0])
    if not term:
        raise InputError(path, f"line {number}: the term has no letter or digit", "Remove the line")
    if (words := term.count(" ") + 1) > _WINDOW:
        remedy = f"Texts are searched for terms of up to {_WINDOW} words: shorten it or remove the line"
        raise InputError(path, f"line {number}: the term has {words} words", remedy)
    return term, fields[1]


def _width(tokens: Sequence[tuple[int, int]], places: range) -> int:
    return tokens[places[-1]][1] - tokens[places[0]][0]
