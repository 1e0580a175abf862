"""Calls that wait for batches: collected while cases run, submitted together, harvested into the journal.

Nothing here depends on a clock: a batch is submitted when it is full, or when every case waits for an answer.
Its content is in the journal before the first byte is sent, so that however this process ends, the next one
finds the batch and never pays twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from cases.texts import plural
from serving.backends.backend import Backend
from serving.batches.desk import BatchDesk, failure_at, provider_of
from serving.batches.pending import CallPending
from serving.journal.batches import Wanted
from serving.journal.journal import Journal
from serving.policy.traffic import Traffic, count, size
from serving.protocol.batch_provider import BatchLimits, BatchRow
from serving.protocol.budget import Budget, Price
from serving.protocol.errors import CallError
from serving.protocol.messages import max_prompt_tokens
from serving.protocol.request import AnyRequest
from serving.requests.client import max_spend
from serving.requests.dispatcher import attempts

MOST_BYTES = 16 * 2**20
"""Maximum bytes of a batch if its provider accepts more: its rows are in memory until they are sent."""


_MOST_MENDS = 4
"""Maximum resubmissions of a call without rejected parameters; each may take hours."""


@dataclass(slots=True)
class _Lot:
    """Rows collected for a model's next batch."""

    backend: Backend
    rows: list[BatchRow] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    bytes: int = 0

    def holds(self, limits: BatchLimits, more_bytes: int) -> bool:
        """Whether one more row fits; one that never fits is sent by itself, and the provider reports why."""
        fits = self.bytes + more_bytes <= min(limits.bytes, MOST_BYTES)
        return not self.rows or (len(self.rows) < limits.requests and fits)


@dataclass(slots=True)
class _Turns:
    """Requests of one case that are under way, and how many of them wait for a batch."""

    under_way: int = 0
    pending: int = 0
    all_pending: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> None:
        """Let those go up that wait, once all do: a node must not end before its other requests are known."""
        if self.pending >= self.under_way:
            self.all_pending.set()
        else:
            self.all_pending.clear()


class Pool:
    """The calls of one run that wait for batches."""

    def __init__(
        self, journal: Journal, budget: Budget, desk: BatchDesk, report: Callable[[str], None], retries: int
    ) -> None:
        self._journal = journal
        self._budget = budget
        self._desk = desk
        self._report = report
        self._retries = retries
        self._lots: dict[str, _Lot] = {}
        self._keys: set[str] = set()
        self._turns: dict[str, _Turns] = {}
        self._submits: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()
        self._mended: Counter[str] = Counter()
        self.submitted = 0
        self.left_open = False

    def is_new(self, key: str) -> bool:
        return self._desk.is_new(key)

    def expect(self, case_id: str, requests: int) -> None:
        """So many requests of a case are going to be made at once."""
        turns = self._turns.setdefault(case_id, _Turns())
        turns.under_way += requests
        turns.look()

    def came(self, case_id: str) -> None:
        turns = self._turns.get(case_id)
        if turns is not None:
            turns.under_way -= 1
            turns.look()

    def forget(self, case_id: str) -> None:
        self._turns.pop(case_id, None)

    def holds(self, request: AnyRequest) -> bool:
        """Whether one of its calls is in a batch, so that a separate request would pay for it twice."""
        batches = self._journal.batches
        return any(batches.standing(request.key(sample)) == "away" for sample in request.samples)

    async def ask(
        self,
        backend: Backend,
        request: AnyRequest,
        shaped: Callable[[], AnyRequest],
        price: Price | None,
    ) -> NoReturn:
        """Take a request into the next batch, unless it is in one.

        Parameters that a service rejected in an earlier batch are left out, and the call is repeated.

        Args:
            backend: A model with batches; one that answers at once where the call is away already.
            request: For samples that have no answer in the journal.
            shaped: Returns it as it is sent, without parameters known to be rejected.
            price: The model's price in batches.

        Raises:
            CallPending: Its batch has not ended. All other requests of the case that are under way are known
                by then.
            CallError: It failed in its batch, or was refused.
            BudgetSpent: It might break the budget.
        """
        try:
            await self._take(backend, request, shaped, price)
        except BaseException:
            self.came(request.case_id)
            raise
        await self.defer(request.case_id)

    async def defer(self, case_id: str) -> NoReturn:
        """Have a case begin again once a batch has ended.

        Raises:
            CallPending: All other requests of the case that are under way are known by then.
        """
        turns = self._turns[case_id]
        turns.pending += 1
        turns.look()
        try:
            await turns.all_pending.wait()
            raise CallPending
        finally:
            turns.pending -= 1
            turns.under_way -= 1

    async def _take(
        self,
        backend: Backend,
        request: AnyRequest,
        shaped: Callable[[], AnyRequest],
        price: Price | None,
    ) -> None:
        new: list[int] = []
        failure: CallError | None = None
        for sample in request.samples:
            key = request.key(sample)
            standing = "away" if key in self._keys else self._journal.batches.standing(key)
            if isinstance(standing, CallError):
                if self._is_mended(backend, key, standing, shaped()):
                    new.append(sample)
                else:
                    failure = standing
            elif standing is None:
                new.append(sample)
        if not new:
            if failure is not None:
                raise failure
            return
        sent = replace(shaped(), samples=tuple(new))
        if backend.batches is not None and self._budget.hold(max_spend(sent, price)):
            await self._add(backend, replace(request, samples=tuple(new)), sent)

    def _is_mended(self, backend: Backend, key: str, refusal: CallError, sent: AnyRequest) -> bool:
        """Whether a call that a batch rejected can go into the next without the rejected parameters."""
        mends = backend.abilities.learn(refusal, sent) or backend.abilities.has_learned(refusal, sent)
        if not mends or self._mended[key] >= _MOST_MENDS:
            return False
        self._mended[key] += 1
        self._journal.batches.forget_failure(key)
        return True

    async def _add(self, backend: Backend, request: AnyRequest, sent: AnyRequest) -> None:
        provider = provider_of(backend)
        row = provider.row(request.key(request.samples[0]), sent)
        length = len(provider.encoded(row))
        name = str(backend.name)
        lot = self._lots.get(name)
        if lot is not None and not lot.holds(provider.limits, length):
            del self._lots[name]
            self._submits.add(asyncio.create_task(self._submit(lot)))
            lot = None
        if lot is None:
            lot = self._lots[name] = _Lot(backend)
        lot.rows.append(row)
        lot.wanted.append(Wanted(request, max_prompt_tokens(sent.messages), sent.max_tokens))
        lot.bytes += length
        self._keys.update(map(request.key, request.samples))
        sending = [task for task in self._submits if not task.done()]
        if len(sending) > 1:
            # Cases run on while one batch is sent; the rows of a third would be memory.
            await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)

    async def flush(self) -> None:
        """Submit collected rows: every case waits for an answer.

        Raises:
            CallError: It cannot be known whether a provider took a batch, or it denies access.
            JournalError: The intent cannot be written.
        """
        lots = list(self._lots.values())
        self._lots.clear()
        for lot in lots:
            self._submits.add(asyncio.create_task(self._submit(lot)))
        await self.close()

    async def close(self) -> None:
        """Wait for submits in progress; rows that were only collected are requested again later.

        Raises:
            CallError, JournalError: As `flush`.
        """
        self._lots.clear()
        ended = await asyncio.gather(*self._submits, return_exceptions=True)
        self._submits.clear()
        self._keys.clear()
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def _submit(self, lot: _Lot) -> None:
        provider = provider_of(lot.backend)
        if provider.endpoint not in self._told:
            self._told.add(provider.endpoint)
            self._report(f"batches: {provider.retention}")
        # Where a provider keeps no metadata, the number of rows helps to find the batch.
        metadata = {"nonce": secrets.token_hex(8), "rows": str(len(lot.rows))}
        try:
            metadata |= await provider.mark()
        except Exception as error:
            reason = failure_at(lot.backend, error)
            if reason.error_class == "auth":
                raise reason from error
            number = self._journal.batches.intend(str(lot.backend.name), provider.endpoint, {}, lot.wanted)
            self._refuse(lot, number, reason)
            return
        batches = self._journal.batches
        number = batches.intend(str(lot.backend.name), provider.endpoint, metadata, lot.wanted)
        self._keys.difference_update(key for one in lot.wanted for key in one.keys)
        self.submitted += 1
        try:
            async for attempt in attempts(self._retries):
                with attempt:
                    await self._submit_once(lot, number, metadata)
        except CallError as failure:
            if failure.error_class == "auth":
                # The calls have not failed: a resume with another key submits them.
                batches.void(number)
                raise
            if isinstance(failure, _Unknown):
                raise
            self._refuse(lot, number, failure)

    def _refuse(self, lot: _Lot, number: int, failure: CallError) -> None:
        """No batch was made: the calls have failed."""
        calls = self._journal.batches.fail_rest(number, failure)
        self._report(f"batches: {failure}; {plural(calls, 'call')} of it failed")
        self._journal.batches.finish(number, "refused", {"failed": calls})
        self._desk.settle_unsent(lot.backend, lot.wanted)

    async def _submit_once(self, lot: _Lot, number: int, metadata: Mapping[str, str]) -> None:
        """Submit once; if that fails, look whether the provider took the batch all the same.

        Raises:
            CallError: It did not.
            _Unknown: That cannot be known.
        """
        provider = provider_of(lot.backend)
        try:
            remote = await provider.submit(lot.rows, metadata)
        except Exception as error:
            failure = failure_at(lot.backend, error)
            if failure.error_class == "auth":
                raise failure from error
            try:
                found = await self._desk.find(lot.backend, metadata)
            except CallError as reason:
                raise _Unknown(
                    f"a submit failed ({failure}), and whether the batch is there cannot be known: {reason}"
                ) from error
            if found is None:
                raise failure from error
            if not found.certain:
                # The next look decides.
                return
            remote = found
        finally:
            sent = size(message.text for one in lot.wanted for message in one.request.messages)
            count(provider.endpoint, Traffic(requests=len(lot.rows), sent=sent))
        self._journal.batches.looked(number, remote)
        calls = plural(sum(len(one.request.samples) for one in lot.wanted), "call")
        requests = plural(len(lot.rows), "request")
        self._report(f"batches: {remote.id} submitted to {provider.endpoint}: {requests} for {calls}")


class _Unknown(CallError):
    """It is unknown whether a batch reached its provider."""

    def __init__(self, message: str) -> None:
        super().__init__("connection", message, retryable=False)
