"""Costs of calls from the user's price file, and a cap on a run's use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cases.texts import plural
from serving.protocol.errors import ModelError
from storage import unique_yaml

_MILLION = 1_000_000


class BudgetSpent(Exception):
    """The next call might exceed the budget. It ends the run, which can be resumed with a larger one."""


class BudgetHeld(Exception):
    """The next call does not fit until a batch has ended: its case has to begin again then."""


class Spend(NamedTuple):
    """Tokens and money, of a call or of a run."""

    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Spend) -> Spend:
        return Spend(self.tokens + other.tokens, self.cost + other.cost)

    def minus(self, other: Spend) -> Spend:
        return Spend(self.tokens - other.tokens, self.cost - other.cost)

    def largest(self, other: Spend) -> Spend:
        return Spend(max(self.tokens, other.tokens), max(self.cost, other.cost))


_NOTHING = Spend()


@dataclass(slots=True)
class Reservation:
    """Reserved maximum of a call; set `actual` to its use."""

    maximum: Spend
    actual: Spend = _NOTHING


@dataclass(slots=True)
class Budget:
    """Cap for all sessions of a run together; None means unlimited.

    It works by reservation: a call that might exceed it is not sent.

    Attributes:
        max_tokens: Tokens read and written.
        max_cost: In the currency of the price file.
        spent: Use so far.
        claimed: Sum of reservations.
        largest_call: The most that a call has reserved.
    """

    max_tokens: int | None = None
    max_cost: float | None = None
    spent: Spend = _NOTHING
    claimed: Spend = _NOTHING
    largest_call: Spend = _NOTHING
    _by_case: dict[str, Spend] = field(default_factory=dict)
    _reserved: Spend = _NOTHING
    _under_way: int = 0
    _held: int = 0
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def limited(self) -> bool:
        return self.max_tokens is not None or self.max_cost is not None

    @asynccontextmanager
    async def reserve(self, maximum: Spend, case_id: str = "") -> AsyncIterator[Reservation]:
        """Reserve before a call of a case and settle after it.

        A call that does not fit next to those under way waits for their actual use.

        Raises:
            BudgetSpent: It does not fit and no call is running.
            BudgetHeld: It does not fit, and only calls in batches are under way.
        """
        self.largest_call = self.largest_call.largest(maximum)
        self.claimed = self.claimed.plus(maximum)
        reservation = Reservation(maximum)
        if not self.limited:
            try:
                yield reservation
            finally:
                self.spent = self.spent.plus(reservation.actual)
            return
        while not self.fits(maximum):
            if self._under_way == 0:
                raise BudgetSpent(self.explain(maximum))
            if self._under_way == self._held:
                raise BudgetHeld
            settled = asyncio.get_running_loop().create_future()
            self._waiting.append(settled)
            await settled
        self._reserve(maximum)
        try:
            yield reservation
        finally:
            self._settle(maximum, reservation.actual, case_id)

    def hold(self, maximum: Spend) -> bool:
        """Reserve for a call that is answered later, by `settle`; False where those under way come first.

        Raises:
            BudgetSpent: It does not fit and no call is running.
        """
        self.largest_call = self.largest_call.largest(maximum)
        if self.limited and not self.fits(maximum):
            if self._under_way == 0:
                raise BudgetSpent(self.explain(maximum))
            return False
        self.take(maximum)
        return True

    def take(self, maximum: Spend) -> None:
        """Reserve for a call that is in a batch already, even above the limit."""
        self._reserve(maximum)
        self._held += 1

    def settle(self, maximum: Spend, actual: Spend, case_id: str = "") -> None:
        """End a call that was reserved for by `hold` or `take`."""
        self._held -= 1
        self._settle(maximum, actual, case_id)

    def _reserve(self, maximum: Spend) -> None:
        self._reserved = self._reserved.plus(maximum)
        self._under_way += 1

    def _settle(self, maximum: Spend, actual: Spend, case_id: str) -> None:
        self.spent = self.spent.plus(actual)
        if self.limited:
            self._by_case[case_id] = self.used_by(case_id).plus(actual)
        self._reserved = self._reserved.minus(maximum)
        self._under_way -= 1
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            if not settled.done():
                settled.set_result(None)

    def used_by(self, case_id: str) -> Spend:
        """Use by the calls of a case under a limit."""
        return self._by_case.get(case_id, _NOTHING)

    def forget(self, case_id: str) -> Spend:
        """The same of a case that has ended; it is not known afterwards."""
        return self._by_case.pop(case_id, _NOTHING)

    def fits(self, more: Spend) -> bool:
        """Whether that much fits in addition to the reservations of calls in progress."""
        return self.allows(self._reserved.plus(more))

    def allows(self, more: Spend) -> bool:
        """Whether that much fits in addition to the use so far."""
        sum_ = self.spent.plus(more)
        return (self.max_tokens is None or sum_.tokens <= self.max_tokens) and (
            self.max_cost is None or sum_.cost <= self.max_cost
        )

    def explain(self, needed: Spend, what: str = "call") -> str:
        """Why the next one is not begun."""
        if self.max_tokens is not None and self.spent.tokens + needed.tokens > self.max_tokens:
            return (
                f"budget of {plural(self.max_tokens, 'token')}: {self.spent.tokens:,} used,"
                f" and the next {what} may take {needed.tokens:,}"
            )
        return (
            f"budget of {self.max_cost:g}: {self.spent.cost:.4g} used,"
            f" and the next {what} may cost {needed.cost:.4g}"
        )


class Price(BaseModel):
    """Price of a million tokens; tokens that the server had cached cost `cached_input` where that is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(None, ge=0, allow_inf_nan=False)

    def times(self, share: float) -> Price:
        prices = {name: value * share for name, value in self if value is not None}
        return self.model_copy(update=prices)

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Cost of one or more calls, in the currency of the file."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = input_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached_price + output_tokens * self.output) / _MILLION


Prices = dict[str, Price]
"""Prices by model, as `provider:name` without an address."""


_MAX_BYTES = 1 << 20


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: Prices


def _short(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"is longer than {_MAX_BYTES >> 20} MB")
    return content


def load_prices(path: Path) -> Prices:
    """Read a YAML file: `models: {"openai:gpt-x": {input: 1.25, output: 10, cached_input: 0.13}}`.

    Raises:
        ModelError: It cannot be read, or a price is missing or negative.
    """
    try:
        return _PriceFile.model_validate(unique_yaml.loads(_short(path))).models
    except OSError as error:
        raise ModelError(f"price file {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ModelError(f"price file {path}: {place}: {first['msg']}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ModelError(f"price file {path}: {' '.join(str(error).split())}") from None
