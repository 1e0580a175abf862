"""Scores of an analysis for programs, 0 to 100 as every other command gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ranking.measures import PrecisionRecallF1


def scores_in_percent(value: Any) -> Any:
    """`value`, of dictionaries, lists and scalars, with precision, recall and F1 by name and times 100."""
    if isinstance(value, PrecisionRecallF1):
        return value.in_percent()
    if isinstance(value, Mapping):
        return {name: scores_in_percent(one) for name, one in value.items()}
    if isinstance(value, list):
        return [scores_in_percent(one) for one in value]
    return value


def shares_in_percent(values: dict[str, Any], names: tuple[str, ...]) -> None:
    """Multiply the named shares by 100, in place."""
    for name in names:
        values[name] *= 100
