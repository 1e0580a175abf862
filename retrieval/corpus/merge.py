"""From the terms of all parts to those of the corpus, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from retrieval.corpus.postings import Hashes

# Terms of all parts that are merged at once; 16 bytes each, a few times over.
_AT_ONCE = 1 << 21


class TermTable(Protocol):
    """The terms of one part, as `Postings` orders them."""

    @property
    def terms(self) -> Hashes:
        """Ascending; shape (terms,)."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the postings of each term begin, and the end of the last; shape (terms + 1,)."""

    @property
    def occurrences(self) -> NDArray[np.int64]:
        """How often each stands in all documents together; shape (terms,)."""


class Merged(NamedTuple):
    """A range of the corpus's terms, ascending, with sums over the parts; each of shape (terms,)."""

    terms: Hashes
    frequencies: NDArray[np.int64]
    occurrences: NDArray[np.int64]


def merge_terms(parts: Sequence[TermTable]) -> Iterator[Merged]:
    """The terms of the corpus, range by range.

    Hashes spread evenly, so that equal ranges of them hold about as many terms each.
    """
    total = sum(part.terms.size for part in parts)
    ranges = max(1, -(-total // _AT_ONCE))
    bounds = [number * (1 << 64) // ranges for number in range(1, ranges)]
    cuts = [
        [0, *np.searchsorted(part.terms, np.array(bounds, dtype=np.uint64)).tolist(), part.terms.size]
        for part in parts
    ]
    for number in range(ranges):
        slices = [slice(cut[number], cut[number + 1]) for cut in cuts]
        pairs = list(zip(parts, slices, strict=True))
        terms, places = np.unique(
            np.concatenate([part.terms[cut] for part, cut in pairs] or [np.empty(0, np.uint64)]),
            return_inverse=True,
        )
        yield Merged(
            terms,
            _summed(
                places, [np.diff(part.starts[cut.start : cut.stop + 1]) for part, cut in pairs], terms.size
            ),
            _summed(places, [part.occurrences[cut] for part, cut in pairs], terms.size),
        )


def _summed(places: NDArray[np.intp], values: Sequence[NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, places, np.concatenate(values or [np.empty(0, np.int64)]))
    return sums
