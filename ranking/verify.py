"""For each line of a generated text, the sentences of its source that support it (Abridge 2025, section 3).

A line is supported where a sentence reaches the probability that the ranker was tuned to. There is no
fallback to the best sentence, because readers must find lines without evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, runtime_checkable

from ranking.cutoffs import Cutoff, FixedThreshold, select
from ranking.errors import RankerError
from ranking.prefixes import Floats, checked_scores, probabilities, ranking_order
from ranking.rankers.load import gives_logits
from ranking.rankers.ranker import Ranked, Ranker, rank_queries

NEAR_SHARE = 0.5
"""A sentence is near to a line that is not supported if it reaches this share of the threshold."""

MAX_NEAR = 3
"""Sentences that are named as near."""

_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of the source.

    Attributes:
        sentence: Its position, from 0.
        probability: The logistic function of the score; None if the ranker's scores are not logits.
    """

    sentence: int
    score: float
    probability: float | None


@dataclass(frozen=True, slots=True)
class VerifiedLine:
    """A line of the generated text.

    Attributes:
        supported: Whether a sentence reaches the threshold.
        evidence: Best first: all sentences from the threshold on, or else the few that are near to it.
        cut: Whether the line is over the ranker's limit of length, so that its end was not read.
    """

    text: str
    supported: bool
    evidence: tuple[Evidence, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """A generated text against its source.

    Attributes:
        threshold: Probability from which on a sentence supports a line; None where there are only scores.
        cut_sentences: Positions of sentences of which only the beginning was read.
    """

    lines: tuple[VerifiedLine, ...]
    sentences: tuple[str, ...]
    threshold: float | None
    cut_sentences: tuple[int, ...]


@runtime_checkable
class TunesThreshold(Protocol):
    """A ranker that was tuned to a threshold as well, where its own cut-off is another rule."""

    @property
    def tuned_threshold(self) -> float: ...


def verify(
    ranker: Ranker,
    lines: Sequence[str],
    sentences: Sequence[str],
    *,
    threshold: float | None = None,
) -> Verification:
    """Find the support of every line, by a probability given or that the ranker was tuned to.

    BM25 and similarity have no probabilities: no line is supported, sentences with a score above 0 are near.

    Raises:
        RankerError: The ranker returned NaN or infinity as a score, or lacks probabilities to compare with
            `threshold`.
    """
    tau = _threshold(ranker, threshold)
    found: list[VerifiedLine] = []
    cut: set[int] = set()
    batches = [lines[start : start + _AT_ONCE] for start in range(0, len(lines), _AT_ONCE)]
    rankings = chain.from_iterable(rank_queries(ranker, batch, sentences) for batch in batches)
    for line, ranked in zip(lines, rankings, strict=True):
        scores = _checked(ranked, ranker, line)
        cut.update(ranked.cut_sentences)
        supported, evidence = (
            _by_words(scores, ranker.cutoff) if tau is None else _by_probability(scores, tau)
        )
        found.append(VerifiedLine(line, supported, evidence, ranked.query_cut))
    return Verification(tuple(found), tuple(sentences), tau, tuple(sorted(cut)))


def _threshold(ranker: Ranker, given: float | None) -> float | None:
    """The tuned threshold; for a ranker tuned to another rule, TAMU 2026, section 4.1.2."""
    if not gives_logits(ranker.identity):
        if given is not None:
            raise RankerError(
                f"{ranker.identity} does not return probabilities to compare with {given:g}; leave the"
                " threshold out, or use the ranker 'logistic'"
            )
        return None
    if given is not None:
        return given
    if isinstance(ranker.cutoff, FixedThreshold):
        return ranker.cutoff.tau
    return ranker.tuned_threshold if isinstance(ranker, TunesThreshold) else FixedThreshold().tau


def _checked(ranked: Ranked, ranker: Ranker, line: str) -> Floats:
    try:
        return checked_scores(ranked.scores)
    except ValueError as error:
        raise RankerError(f"ranker {ranker.identity}, line {line[:60]!r}: {error}") from None


def _by_probability(scores: Floats, tau: float) -> tuple[bool, tuple[Evidence, ...]]:
    values = probabilities(scores)
    order = ranking_order(scores)
    supporting = [place for place in order if values[place] >= tau]
    if supporting:
        return True, tuple(_evidence(place, scores, values) for place in supporting)
    near = [place for place in order[:MAX_NEAR] if values[place] >= NEAR_SHARE * tau]
    return False, tuple(_evidence(place, scores, values) for place in near)


def _by_words(scores: Floats, cutoff: Cutoff) -> tuple[bool, tuple[Evidence, ...]]:
    near = sorted(
        (place for place in select(cutoff, scores) if scores[place] > 0), key=lambda place: -scores[place]
    )
    return False, tuple(_evidence(place, scores, None) for place in near)


def _evidence(place: int, scores: Floats, values: Floats | None) -> Evidence:
    return Evidence(int(place), float(scores[place]), None if values is None else float(values[place]))
