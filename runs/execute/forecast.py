"""What a case is likely to take, by a rehearsal of the first ones; no model and no server is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

from cases.records import Case
from runs.execute.assemble import Assembly
from runs.execute.rehearsal import rehearse, writer
from serving.journal.journal import Journal
from serving.protocol.budget import Prices, Spend
from serving.protocol.limits import Limits
from serving.requests.client import ModelClient
from serving.requests.dry_run import without_model

REHEARSED = 3
"""Cases that are rehearsed: enough to know whether a case takes three calls or three hundred."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a case takes, as far as that is known before one has ended.

    Attributes:
        calls: Mean of a case.
        spend: Of the largest case.
        most: What the calls of the largest case may use at most.
        largest_call: What the largest call may use at most.
    """

    calls: float
    spend: Spend
    most: Spend
    largest_call: Spend


async def forecast(assembly: Assembly, cases: Iterable[Case], prices: Prices) -> Forecast | None:
    """Rehearse cases with estimated token counts.

    The graph and the client of the run are left alone.

    Returns:
        None where no case came to its end.
    """
    # A case of the run may be under way while its rehearsal is: they must not share a thread.
    rehearsed = replace(
        assembly, recipe=assembly.recipe.without_waiting(), graph=assembly.system.build(checkpointer=None)
    )
    foreseen: dict[str, dict[str, str]] = {}
    write = writer(assembly.system, rehearsed.recipe, foreseen)
    dry = {
        id(one): without_model(replace(one, count_tokens=None), write, {})
        for one in assembly.backends.values()
    }
    backends = {role: dry[id(one)] for role, one in assembly.backends.items()}
    journal = Journal(None)
    client = ModelClient(backends, journal, Limits(max_retries=0), prices=prices)
    calls: list[int] = []
    spent: list[Spend] = []
    claimed: list[Spend] = []
    try:
        for case in cases:
            before, claimed_before = client.budget.spent, client.budget.claimed
            result = await rehearse(rehearsed, client, case, foreseen)
            if result.line["error"] is None:
                calls.append(result.line["usage"]["calls"])
                spent.append(client.budget.spent.minus(before))
                claimed.append(client.budget.claimed.minus(claimed_before))
    finally:
        await client.dispatcher.close()
        journal.close()
    if not calls:
        return None
    largest, most = reduce(Spend.largest, spent), reduce(Spend.largest, claimed)
    return Forecast(sum(calls) / len(calls), largest, most, client.budget.largest_call)
