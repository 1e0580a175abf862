"""Requests that are made at once."""

import asyncio

import pytest

from nodes.core.ballot import Ballot
from serving.protocol.budget import BudgetSpent
from serving.protocol.request import Reply


async def test_a_request_that_ends_the_run_cancels_the_others() -> None:
    ended: list[str] = []

    async def waits() -> Reply[str]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return Reply("", "", ())

    async def ends() -> Reply[str]:
        raise BudgetSpent("tokens")

    with pytest.raises(BudgetSpent):
        await Ballot.gathered({"1": waits(), "2": ends()})
    await asyncio.sleep(0)
    assert ended == ["cancelled"]
