"""How strong the evidence of a kind of study is, by the publication types of its record.

A short order in the spirit of GRADE: reviews that weigh many studies, then randomised trials, then the rest.
A type says nothing of how well a study was made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Strength = Literal["systematic_review", "randomised_trial", "other"]
"""Strongest first."""

STRENGTHS: tuple[Strength, ...] = get_args(Strength)

_REVIEWS = ("systematic review", "meta-analysis", "meta analysis")
_TRIALS = ("randomized controlled trial", "randomised controlled trial", "randomized clinical trial")


def strength_of(study_types: Iterable[str]) -> Strength | None:
    """The strongest kind among the types; None without types."""
    names = [" ".join(name.lower().split()) for name in study_types]
    if not any(names):
        return None
    if any(kind in name for name in names for kind in _REVIEWS):
        return "systematic_review"
    return "randomised_trial" if any(kind in name for name in names for kind in _TRIALS) else "other"


def at_least(strength: Strength | None, weakest: Strength) -> bool:
    """Whether a kind is known and at least as strong as `weakest`."""
    return strength is not None and STRENGTHS.index(strength) <= STRENGTHS.index(weakest)
