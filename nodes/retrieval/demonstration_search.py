"""Demonstrations of a prompt: the nearest annotated cases that can show something, as many as fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from cases.records import Case
from nodes.core.context import Context, Tool
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.recipe import Recipe
from nodes.core.records import Shown, Tier, shown
from prompts import Variables
from retrieval.pools.compared import View
from retrieval.pools.neighbours import Neighbour
from retrieval.pools.pool import DemonstrationPool
from serving.protocol.messages import Message

POOL: Tool[DemonstrationPool] = Tool("demonstrations")
"""Annotated cases."""


_MAX_LOOKED_AT = 128
"""Nearest cases that are opened: no case is to read through thousands that lack the annotation."""


class Found(NamedTuple):
    """Demonstrations in the order of choice, and the ids that could not be chosen."""

    shown: list[Shown]
    excluded: frozenset[str]

    @property
    def ids(self) -> list[str]:
        return [one["case_id"] for one in self.shown]

    @property
    def facts(self) -> dict[str, Any]:
        return {"chosen": self.shown, "excluded": sorted(self.excluded)}


async def choose(
    pool: DemonstrationPool | None,
    case: Case,
    recipe: Recipe,
    view: View,
    text: str,
    wanted: int,
    *,
    fits: Callable[[Case], bool] | None = None,
    intents: Sequence[str | None] = (),
    union: bool = False,
    among: Collection[str] = (),
) -> Found:
    """The nearest demonstrations for a case; never the case itself nor one held out.

    Args:
        pool: Annotated cases; None has none.
        case: The case; neither is one with the same texts under another id chosen.
        recipe: Names the cases that are held out.
        view: Text of a case to compare.
        text: The query.
        wanted: How many.
        fits: Whether a case is suitable; None accepts all.
        intents: Cases of the first come before those of the second, and both before any others.
        union: Rank cases of both intents together.
        among: Ids of the only cases that may be chosen; none lets all in.
    """
    if pool is None or wanted == 0:
        return Found([], frozenset())
    excluded = pool.twins(case) | set(recipe.held_out)
    chosen: list[Shown] = []
    tiers: tuple[Tier, Tier] = ("primary", "secondary")
    for tier, intent in zip(tiers, intents, strict=False):
        if intent is None or len(chosen) >= wanted:
            break
        # A union ranks both intents together, so it needs the nearest of each.
        missing = wanted if union else wanted - len(chosen)
        taken = excluded.union(one["case_id"] for one in chosen)
        same = await pool.nearest(view, text, missing, intent=intent, excluded=taken, among=among)
        chosen += [shown(neighbour, tier) for neighbour in same]
        if union and tier == "secondary":
            chosen = sorted(chosen, key=lambda one: (one["distance"], one["case_id"]))[:wanted]
    if len(chosen) < wanted:
        rest: Tier = "fill" if any(intents[:1]) else "similarity"
        taken = excluded.union(one["case_id"] for one in chosen)
        missing = wanted - len(chosen)
        if fits is None:
            others = await pool.nearest(view, text, missing, excluded=taken, among=among)
        else:
            others = await _nearest_fitting(pool, view, text, missing, taken, fits)
        chosen += [shown(neighbour, rest) for neighbour in others]
    return Found(chosen, excluded)


async def _nearest_fitting(
    pool: DemonstrationPool,
    view: View,
    text: str,
    wanted: int,
    excluded: Collection[str],
    fits: Callable[[Case], bool],
) -> list[Neighbour]:
    chosen: list[Neighbour] = []
    seen = set(excluded)
    looked_at = 0
    while len(chosen) < wanted and looked_at < _MAX_LOOKED_AT:
        count = min(max(2 * wanted, looked_at), _MAX_LOOKED_AT - looked_at)
        neighbours = await pool.nearest(view, text, count, excluded=seen)
        chosen += [one for one in neighbours if fits(pool.case(one.case_id))]
        seen |= {neighbour.case_id for neighbour in neighbours}
        looked_at += count
        if len(neighbours) < count:
            break
    return chosen[:wanted]


async def fit_demonstrations(
    context: Context,
    prompt: str,
    variables: Variables,
    chosen: Sequence[str],
    of_case: Callable[[Case], Variables],
    *,
    reply_tokens: int,
    later_tokens: int = 0,
) -> Fitted:
    """A prompt of the `answer` model with as many demonstrations as fit.

    They are ordered by id, so that cases share beginnings.

    Args:
        context: Of the case.
        prompt: Its name.
        variables: Of the case.
        chosen: Ids of the demonstrations, the most useful first.
        of_case: From a demonstration to its variables.
        reply_tokens: Room that the reply itself needs.
        later_tokens: Room for later turns of the conversation.

    Raises:
        NodeFailure: The case alone does not fit.
    """
    pool = context.find(POOL)

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = sorted(ids)
        shown = [of_case(pool.case(id_)) for id_ in ordered] if pool else []
        return context.messages(prompt, variables, shown), ordered

    return await fit_prompt(
        context.client, "answer", chosen, render, reply_tokens=reply_tokens, later_tokens=later_tokens
    )
