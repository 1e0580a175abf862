"""Rows of different lengths in batches with little padding."""

from __future__ import annotations

from collections.abc import Sequence


def chunks(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Group rows of similar length.

    Args:
        lengths: Tokens of each row.
        token_budget: Upper bound of rows times longest row in a group; a longer row is a group of its own.

    Returns:
        Indices of rows, the longest rows first, each once.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    groups: list[list[int]] = []
    for row in order:
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= token_budget:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
