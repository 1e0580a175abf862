"""The second pass of a build: numbers of the whole corpus, then the scores of each part by them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval.corpus.manifest import Settings
from retrieval.corpus.merge import merge_terms
from retrieval.corpus.part import Part
from retrieval.corpus.postings import Statistics, scores

_Number = TypeVar("_Number", bound=np.generic)


class Finished(NamedTuple):
    """What the second pass found; fields of the manifest of the same names tell what they are."""

    scores: str
    terms: int
    postings: int
    mean_length: float


def scores_name(parts: Sequence[Part], settings: Settings) -> str:
    """Equal for scores that are equal: the same parts, scored in the same way."""
    given = [settings.model_dump(), [part.manifest.model_dump() for part in parts]]
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12]


def finish(
    folder: Path, parts: Sequence[Part], settings: Settings, report: Callable[[int], None]
) -> Finished:
    """Score every posting of every part; scores that a killed build has left are kept.

    Args:
        folder: Of the corpus; holds the table of its terms for a while.
        parts: All of them.
        settings: Of the corpus.
        report: Told how many parts have their scores.
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
