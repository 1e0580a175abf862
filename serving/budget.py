"""A cap on what a run may use. It is held by reservation: a call that might break it is not sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class BudgetSpent(Exception):
    """The next call might break the budget. It ends the run, which can be resumed with a larger one."""


class Spend(NamedTuple):
    """Tokens and money, of a call or of a run."""

    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Spend) -> Spend:
        """The sum."""
        return Spend(self.tokens + other.tokens, self.cost + other.cost)

    def minus(self, other: Spend) -> Spend:
        """The difference."""
        return Spend(self.tokens - other.tokens, self.cost - other.cost)


_NOTHING = Spend()


@dataclass(slots=True)
class Reservation:
    """What a call may use at most; set `actual` to what it has used."""

    most: Spend
    actual: Spend = _NOTHING


@dataclass(slots=True)
class Budget:
    """What all sessions of a run may use together; None is no limit.

    Attributes:
        max_tokens: Tokens read and written.
        max_cost: In the currency of the price file.
        spent: What has been used.
    """

    max_tokens: int | None = None
    max_cost: float | None = None
    spent: Spend = _NOTHING
    _reserved: Spend = _NOTHING
    _under_way: int = 0
    _settled: asyncio.Condition = field(default_factory=asyncio.Condition)

    @asynccontextmanager
    async def reserve(self, most: Spend) -> AsyncIterator[Reservation]:
        """Reserve before a call and settle after it.

        A call that does not fit beside those under way waits for what they turn out to use.

        Raises:
            BudgetSpent: It does not fit and no call is under way.
        """
        if self.max_tokens is None and self.max_cost is None:
            reservation = Reservation(most)
            try:
                yield reservation
            finally:
                self.spent = self.spent.plus(reservation.actual)
            return
        async with self._settled:
            while not self._fits(most):
                if self._under_way == 0:
                    raise BudgetSpent(self._explain(most))
                await self._settled.wait()
            self._reserved = self._reserved.plus(most)
            self._under_way += 1
        reservation = Reservation(most)
        try:
            yield reservation
        finally:
            self.spent = self.spent.plus(reservation.actual)
            self._reserved = self._reserved.minus(most)
            self._under_way -= 1
            async with self._settled:
                self._settled.notify_all()

    def _fits(self, most: Spend) -> bool:
        sum_ = self.spent.plus(self._reserved).plus(most)
        return (self.max_tokens is None or sum_.tokens <= self.max_tokens) and (
            self.max_cost is None or sum_.cost <= self.max_cost
        )

    def _explain(self, most: Spend) -> str:
        if self.max_tokens is not None and self.spent.tokens + most.tokens > self.max_tokens:
            return (
                f"budget of {self.max_tokens:,} tokens: {self.spent.tokens:,} used,"
                f" and the next call may take {most.tokens:,}"
            )
        return (
            f"budget of {self.max_cost:g}: {self.spent.cost:.4g} used,"
            f" and the next call may cost {most.cost:.4g}"
        )
