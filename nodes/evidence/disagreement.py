"""Disagreement of the votes on a case, and whether it needs a review."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodes.evidence.settings import ReviewSettings


def contested(counts: Mapping[str, int], usable: int) -> list[str]:
    """Ids of the sentences that some usable votes call essential and others do not, in note order.

    Args:
        counts: Votes for each sentence; a ranker's counts with its weight.
        usable: Votes that there were, counted in the same way.
    """
    return [id_ for id_, count in counts.items() if 0 < count < usable]


def disagreement(counts: Mapping[str, int], usable: int) -> float:
    """Share of a case's sentences on which its usable votes differ: 0 where all agree, 1 where none do.

    0 for a single vote, such as a sole ranker's, and for a note without sentences.

    Args:
        counts: As in `contested`.
        usable: As in `contested`.
    """
    return len(contested(counts, usable)) / len(counts) if counts else 0.0


def needs_review(
    settings: ReviewSettings, counts: Mapping[str, int], usable: int, confidence: float | None = None
) -> bool:
    """Whether votes differ on more than the recipe's share of sentences, or the labels are too uncertain.

    Args:
        settings: The limits; without any no case waits.
        counts: As in `contested`.
        usable: As in `contested`.
        confidence: Of the case, by a calibrated rule; None without one.
    """
    return differs_too_much(settings, counts, usable) or is_too_uncertain(settings, confidence)


def differs_too_much(settings: ReviewSettings, counts: Mapping[str, int], usable: int) -> bool:
    """Whether votes differ on more than the recipe's share of sentences."""
    return settings.disagreement is not None and disagreement(counts, usable) > settings.disagreement


def is_too_uncertain(settings: ReviewSettings, confidence: float | None) -> bool:
    """Whether the case's confidence is below the recipe's."""
    return settings.confidence is not None and (confidence is None or confidence < settings.confidence)
