"""The second pass of a build: numbers of the whole corpus, then the scores of each part by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cases.texts import json_sha256
from retrieval.corpus.manifest import Settings
from retrieval.corpus.part import Part
from retrieval.corpus.postings import Hashes, Statistics, scores

# Terms of all parts that are merged at once; 16 bytes each, a few times over.
_AT_ONCE = 1 << 21


class TermTable(Protocol):
    """The terms of one part, as `Postings` orders them."""

    @property
    def terms(self) -> Hashes: ...

    @property
    def starts(self) -> NDArray[np.int64]: ...

    @property
    def occurrences(self) -> NDArray[np.int64]: ...


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


_Number = TypeVar("_Number", bound=np.generic)


class Finished(NamedTuple):
    """Results of the second pass; see the manifest's fields of the same names."""

    scores: str
    terms: int
    postings: int
    mean_length: float


def scores_name(parts: Sequence[Part], settings: Settings) -> str:
    """Equal for scores that are equal: the same parts, scored in the same way."""
    return json_sha256([settings.model_dump(), [part.manifest.model_dump() for part in parts]])[:12]


def finish(
    folder: Path, parts: Sequence[Part], settings: Settings, report: Callable[[int], None]
) -> Finished:
    """Score every posting of every part; scores that a killed build has left are kept.

    The folder holds the table of the corpus's terms for a while.
    """
    name = scores_name(parts, settings)
    tables = [folder / f".{table}.tmp" for table in ("terms", "frequencies")]
    try:
        statistics, postings = _statistics(parts, settings.min_df, *tables)
        for number, part in enumerate(parts):
            report(number)
            if not part.has_scores(name):
                part.write_scores(name, scores(part.postings(), statistics))
        kept = int(np.count_nonzero(statistics.frequencies >= settings.min_df))
        return Finished(name, kept, postings, statistics.mean_length)
    finally:
        for table in tables:
            table.unlink(missing_ok=True)


def _statistics(parts: Sequence[Part], min_df: int, terms: Path, frequencies: Path) -> tuple[Statistics, int]:
    """Merge the terms of all parts into two mapped files; also the postings of the terms that are kept."""
    length = postings = 0
    with terms.open("wb") as to_terms, frequencies.open("wb") as to_frequencies:
        for merged in merge_terms(parts):
            merged.terms.tofile(to_terms)
            merged.frequencies.tofile(to_frequencies)
            kept = merged.frequencies >= min_df
            length += int(merged.occurrences[kept].sum())
            postings += int(merged.frequencies[kept].sum())
    documents = sum(len(part) for part in parts)
    statistics = Statistics(
        documents=documents,
        mean_length=length / documents,
        terms=_mapped(terms, np.uint64),
        frequencies=_mapped(frequencies, np.int64),
        min_df=min_df,
    )
    return statistics, postings


def _mapped(path: Path, kind: type[_Number]) -> NDArray[_Number]:
    if not path.stat().st_size:
        return np.empty(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r").view(np.ndarray)
