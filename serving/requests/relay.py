"""The journal, the budget and the rates of a run, as workers in other processes use them.

One process writes the run and keeps the user's limits. A worker asks it for stored calls before it asks a
model, and reports every answer at once, so a killed worker loses only the calls in flight. Messages are
tuples of plain values: any transport that keeps their order will do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from serving.journal.journal import Journal, JournalError
from serving.protocol.budget import Budget, BudgetSpent, Reservation, Spend
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest
from serving.requests.client import ModelClient, spend
from serving.requests.endpoint import Endpoint

RelayMessage = tuple[Any, ...]
"""Its kind, a word, and the values that belong to it."""

_NOTHING = Spend()


class Line:
    """A worker's end: sends requests and notices; the owner of the transport passes it the replies."""

    def __init__(self, tell: Callable[[RelayMessage], None]) -> None:
        """`tell` takes messages to the other end, in order."""
        self.tell = tell
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[Any]] = {}

    def number(self) -> int:
        """A new number for a request."""
        return next(self._numbers)

    async def ask(self, word: str, *given: Any, number: int | None = None) -> Any:
        number = self.number() if number is None else number
        reply = self._asked[number] = asyncio.get_running_loop().create_future()
        self.tell((word, number, *given))
        try:
            return await reply
        finally:
            del self._asked[number]

    def replied(self, number: int, value: Any) -> None:
        """Deliver a reply, unless the requester is gone."""
        reply = self._asked.get(number)
        if reply is not None and not reply.done():
            reply.set_result(value)


class RelayedCalls:
    """The journal, as a worker has it; nothing of it is kept here."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def find_all(self, request: AnyRequest) -> dict[int, Answer]:
        """The stored answers by sample, be they of another case or of another worker."""
        keys = [request.key(sample) for sample in request.samples]
        found: list[Answer | None] = await self._line.ask("find", keys)
        answers = zip(request.samples, found, strict=True)
        return {sample: answer for sample, answer in answers if answer is not None}

    async def keep_all(self, request: AnyRequest, answers: Mapping[int, Answer]) -> None:
        """Send the answers of one request, and wait until they are committed."""
        # Parsers are functions, which no transport takes.
        plain = replace(request, reply=replace(request.reply, parse=str, fallback=None))
        await self._line.ask("store", plain, answers)

    async def reject_all(self, keys: Sequence[str]) -> None:
        await self._line.ask("reject", list(keys))


class RelayedBudget(Budget):
    """The budget, as a worker has it: it knows whether there is a limit, and asks for each call."""

    def __init__(self, line: Line, max_tokens: int | None, max_cost: float | None) -> None:
        super().__init__(max_tokens, max_cost)
        self._line = line

    @asynccontextmanager
    async def reserve(self, maximum: Spend, case_id: str = "") -> AsyncIterator[Reservation]:
        """Reserve before a call of a case and settle after it.

        Raises:
            BudgetSpent: It does not fit and no call is running.
        """
        reservation = Reservation(maximum)
        if not self.limited:
            yield reservation
            return
        number = self._line.number()
        try:
            refused: str | None = await self._line.ask("reserve", maximum, case_id, number=number)
            if refused is not None:
                raise BudgetSpent(refused)
            yield reservation
        finally:
            # Also of a case that was stopped while it waited for the reply.
            self._line.tell(("settle", number, reservation.actual))


class RelayedRate:
    """A rate of an address, as a worker has it."""

    def __init__(self, line: Line, address: str, name: str, max_rate: float) -> None:
        """`name` is the endpoint's field."""
        self._line = line
        self._address = address
        self._name = name
        self.max_rate = max_rate

    async def acquire(self, amount: float = 1) -> None:
        await self._line.ask("rate", self._address, self._name, amount)


def relay_rates(endpoints: Mapping[str, Endpoint], line: Line) -> None:
    """Let the other end keep the rates of a worker's endpoints."""
    for address, endpoint in endpoints.items():
        if endpoint.rpm is not None:
            endpoint.rpm = RelayedRate(line, address, "rpm", endpoint.rpm.max_rate)
        if endpoint.tpm is not None:
            endpoint.tpm = RelayedRate(line, address, "tpm", endpoint.tpm.max_rate)


class Desk:
    """The end at the process that writes the run, for one worker. Close it when the worker is gone."""

    def __init__(
        self,
        client: ModelClient,
        journal: Journal,
        reply: Callable[[int, Any], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """Serve a client that has the journal, the budget and the endpoints with their full limits."""
        self._client = client
        self._journal = journal
        self._reply = reply
        self._fail = fail
        self._open: dict[int, asyncio.Future[Spend]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: RelayMessage) -> bool:
        """Handle a worker's message; False if it is of another kind.

        Raises:
            JournalError: The journal cannot be read.
        """
        match message:
            case ("find", number, keys):
                self._reply(number, [self._journal.find(key) for key in keys])
            case ("store", number, request, answers):
                self._begin(self._store(number, request, answers))
            case ("reject", number, keys):
                self._begin(self._reject(number, keys))
            case ("reserve", number, maximum, case_id):
                settled = self._open[number] = asyncio.get_running_loop().create_future()
                self._begin(self._reserve(number, maximum, case_id, settled))
            case ("settle", number, actual):
                settled = self._open.pop(number)
                if not settled.done():
                    settled.set_result(actual)
            case ("rate", number, address, name, amount):
                self._begin(self._wait_for_rate(number, address, name, amount))
            case _:
                return False
        return True

    async def close(self) -> None:
        """Count its calls in flight at their maximum, as their use is unknown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store(self, number: int, request: AnyRequest, answers: Mapping[int, Answer]) -> None:
        price = self._client.prices.get(request.model)
        try:
            await self._journal.keep_all(request, answers)
        except JournalError as error:
            self._fail(error)
            return
        self._client.count_all([*answers.values()], price)
        budget = self._client.budget
        if not budget.limited:
            budget.spent = budget.spent.plus(spend([*answers.values()], price))
        self._reply(number, None)

    async def _reject(self, number: int, keys: Sequence[str]) -> None:
        try:
            await self._journal.reject_all(keys)
        except JournalError as error:
            self._fail(error)
            return
        self._reply(number, None)

    async def _reserve(
        self, number: int, maximum: Spend, case_id: str, settled: asyncio.Future[Spend]
    ) -> None:
        try:
            async with self._client.budget.reserve(maximum, case_id) as reservation:
                reservation.actual = maximum
                self._reply(number, None)
                reservation.actual = await settled
        except BudgetSpent as spent:
            self._reply(number, str(spent))

    async def _wait_for_rate(self, number: int, address: str, name: str, amount: float) -> None:
        endpoint = self._client.dispatcher.endpoints[address]
        rate = endpoint.rpm if name == "rpm" else endpoint.tpm
        if rate is not None:
            await rate.acquire(amount)
        self._reply(number, None)


def part(whole: int, place: int, of: int) -> int:
    """Size of the part at a place, of `of` nearly equal ones."""
    return whole // of + (place < whole % of)
