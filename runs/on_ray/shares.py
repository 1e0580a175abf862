"""What each worker may use of the user's limits, divided anew whenever one comes or goes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

from runs.on_ray.member import Member
from serving.requests.endpoint import Endpoint
from serving.requests.relay import part

Widths = dict[str, tuple[int, int]]
"""By address, the most requests at once, and the most choice requests beside them."""


class Shares:
    """Keeps the sum of what workers may use within the limits, also while they are divided anew."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        # A model in a worker's own process shares nothing with the others.
        self._shared = {address: one.widths for address, one in endpoints.items() if one.look is not None}
        self._most = min(
            (width for widths in self._shared.values() for width in widths if width), default=None
        )
        self._numbers = itertools.count()

    async def divide(self, members: Sequence[Member]) -> None:
        """Divide the limits; a worker that is to have less gives it back before others get it.

        Where there are more workers than connections, the last ones get none.
        """
        sharing = members[: self._most]
        parts = [
            {
                address: (part(width, place, len(sharing)), part(choices, place, len(sharing)))
                for address, (width, choices) in self._shared.items()
            }
            for place in range(len(sharing))
        ]
        known = [(one, widths) for one, widths in zip(sharing, parts, strict=True) if one.widths]
        await asyncio.gather(*(self._resize(one, _smaller(one.widths, new)) for one, new in known))
        # A new one begins with the whole limits, so that the learnt share of them is that of a new run.
        await asyncio.gather(*map(self._resize, sharing, parts))

    async def _resize(self, member: Member, widths: Widths) -> None:
        if member.widths == widths or member.lost:
            return
        number = next(self._numbers)
        done = member.resized[number] = asyncio.get_running_loop().create_future()
        member.say("resize", number, widths)
        await done
        member.widths = widths


def _smaller(one: Widths | None, other: Widths) -> Widths:
    before = one or other
    return {
        address: (min(width, before[address][0]), min(choices, before[address][1]))
        for address, (width, choices) in other.items()
    }
