"""The nearest demonstrations that can show something: not every annotated case has every annotation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from cases.records import Case
from nodes.core.context import Tool
from nodes.core.records import Shown, shown
from retrieval.pools.compared import View
from retrieval.pools.pool import DemonstrationPool

POOL: Tool[DemonstrationPool] = Tool("demonstrations")
"""Annotated cases."""


_MAX_LOOKED_AT = 128
"""Nearest cases that are opened: no case is to read through thousands that lack the annotation."""


class Found(NamedTuple):
    """Demonstrations, nearest first, and the ids that could not be chosen."""

    shown: list[Shown]
    excluded: frozenset[str]


async def nearest_fitting(
    pool: DemonstrationPool,
    view: View,
    text: str,
    wanted: int,
    excluded: Collection[str],
    fits: Callable[[Case], bool],
) -> list[Shown]:
    """The `wanted` nearest cases that fit, looked for among the nearest `_MAX_LOOKED_AT`."""
    chosen: list[Shown] = []
    seen = set(excluded)
    looked_at = 0
    while len(chosen) < wanted and looked_at < _MAX_LOOKED_AT:
        count = min(max(2 * wanted, looked_at), _MAX_LOOKED_AT - looked_at)
        neighbours = await pool.nearest(view, text, count, excluded=seen)
        fitting = [one for one in neighbours if fits(pool.case(one.case_id))]
        chosen += [shown(neighbour, "similarity") for neighbour in fitting]
        seen |= {neighbour.case_id for neighbour in neighbours}
        looked_at += count
        if len(neighbours) < count:
            break
    return chosen[:wanted]
