"""Batches that are away: found, looked at, harvested into the journal, and deleted at their provider."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cases.texts import plural
from serving.backends.backend import Backend
from serving.batches.providers import connect_batched
from serving.journal.batches import BatchRecord, Harvested, Wanted
from serving.journal.journal import Journal
from serving.policy.traffic import Traffic, count, size
from serving.protocol.batch_provider import BatchProvider, NoSuchBatch, RemoteBatch, RowResult
from serving.protocol.budget import Price, Spend
from serving.protocol.errors import CallError, ErrorClass, classify
from serving.protocol.messages import Answer
from serving.protocol.model_name import key_variable, parse_model_name
from serving.requests.client import ModelClient, spend

logger = logging.getLogger("evigraph.serving")

GRACE_S = 10.0
"""A batch may be listed a little after it was made, so an intent is not given up earlier."""

_ROWS_A_COMMIT = 200
_MAX_WARNINGS = 5

_WHY: dict[str, tuple[ErrorClass, str]] = {
    "expired": ("timeout", "the batch expired before this request was reached"),
    "cancelled": ("connection", "the batch was cancelled"),
    "failed": ("internal", "the batch failed"),
    "ended": ("internal", "the batch ended without a result for this request"),
}
"""Class and words for rows without a result, by the state of their batch."""


@dataclass(slots=True)
class BatchDesk:
    """Looks after the batches of a journal in one session of a run.

    Attributes:
        backends: The models of the session that answer in batches, by their string.
        report: Called with lines for the user.
        keep_remote: Leave files at the provider.
        tries: Failed harvests in a row after which missing rows count as failed.
        changed: Batches that came to an end in this session.
        held: Whether a provider has refused a batch for now, since this was last asked.
    """

    journal: Journal
    client: ModelClient
    backends: dict[str, Backend]
    report: Callable[[str], None]
    keep_remote: bool = False
    tries: int = 5
    changed: int = 0
    held: bool = False
    _new: set[bytes] = field(default_factory=set)
    _connected: list[Backend] = field(default_factory=list)
    _troubles: Counter[int] = field(default_factory=Counter)
    _warnings: int = 0

    def is_new(self, key: str) -> bool:
        """Whether a call was answered in this session."""
        return bytes.fromhex(key)[:16] in self._new

    def take_reserved(self) -> None:
        """Reserve for the calls that earlier sessions have left away."""
        prices = {backend.name.identity: self.client.price_of(backend) for backend in self.backends.values()}
        for _, model, read, written in self.journal.batches.reserved():
            self.client.budget.take(_spend((read, written), prices.get(model)))

    def settle_unsent(self, backend: Backend, wanted: Sequence[Wanted]) -> None:
        """Give back what calls had reserved that were never sent."""
        price = self.client.price_of(backend)
        for one in wanted:
            most = one.most_read, one.most_written * len(one.request.samples)
            self.client.budget.settle(_spend(most, price), Spend(), one.request.case_id)

    async def find(self, backend: Backend, metadata: Mapping[str, str]) -> RemoteBatch | None:
        """The batch that was submitted with these metadata, or one that may be it; None if there is none.

        Raises:
            CallError: The provider does not say.
        """
        provider = provider_of(backend)
        candidate: RemoteBatch | None = None
        try:
            async for found in provider.found(metadata):
                if found.certain:
                    return found
                candidate = candidate or found
        except Exception as error:
            raise failure_at(backend, error) from error
        return candidate

    async def look(self) -> None:
        """Poll every unfinished batch, and harvest ended ones.

        Raises:
            ModelError: The model of a batch cannot be used any more.
            CallError: The provider denies access.
            JournalError: The journal cannot be written.
        """
        for record in self.journal.batches.records(("intended", "away", "harvested")):
            backend = self._backend(record.model)
            try:
                await self._look_at(record, backend)
            except CallError as error:
                if error.error_class == "auth":
                    raise
                self._troubles[record.number] += 1
                if self._troubles[record.number] == 1:
                    self.report(f"batches: {error}; it is looked at again later")
            else:
                self._troubles.pop(record.number, None)

    async def look_for_lost(self) -> None:
        """Look once more for batches that an account did not know: it may have been another's key."""
        for record in self.journal.batches.records(("lost",)):
            backend = self._backend(record.model)
            try:
                remote = await provider_of(backend).look(record.remote_id)
            except Exception as error:
                logger.info("batch %s is still lost: %s", record.remote_id, error)
                self.journal.batches.finish(record.number, "closed", record.counts)
                continue
            calls = self.journal.batches.release(record.number)
            self.journal.batches.looked(record.number, remote)
            self.report(f"batches: {remote.id} with {plural(calls, 'call')} is there again")

    async def aclose(self) -> None:
        """Close the connections that only harvests have needed."""
        for backend in self._connected:
            await provider_of(backend).aclose()

    def _backend(self, model: str) -> Backend:
        """The model of a batch; one that this session does not ask is connected for its batches alone."""
        if model not in self.backends:
            backend = self.backends[model] = connect_batched(parse_model_name(model))
            self._connected.append(backend)
        return self.backends[model]

    async def _look_at(self, record: BatchRecord, backend: Backend) -> None:
        provider = provider_of(backend)
        if record.state == "intended":
            found = await self._adopt(record, backend)
            if found is None:
                return
        elif record.state == "harvested":
            await self._delete(record, backend, None)
            return
        else:
            try:
                found = await provider.look(record.remote_id)
            except NoSuchBatch as error:
                self._lose(record, backend, error)
                return
            except Exception as error:
                raise failure_at(backend, error) from error
        self.journal.batches.looked(record.number, found)
        if found.final:
            await self._harvest(record, backend, found)

    async def _adopt(self, record: BatchRecord, backend: Backend) -> RemoteBatch | None:
        """The batch of an intent that no answer of the provider followed, if it is there for certain."""
        waited = 0.0
        # A clock that was set must not make this long.
        old = min(max(0.0, time.time() - record.intended), GRACE_S)
        while True:
            found = await self.find(backend, record.metadata) if "nonce" in record.metadata else None
            if found is not None and found.certain:
                self.report(f"batches: {found.id} was submitted before this session, and is adopted")
                return found
            if found is not None:
                self.report(f"batches: {found.id} may be one of this run; it is known once it has ended")
                return None
            if old + waited >= GRACE_S:
                break
            await asyncio.sleep(min(1.0, GRACE_S))
            waited += min(1.0, GRACE_S)
        self._give_back(record, backend)
        calls = self.journal.batches.void(record.number)
        self.report(f"batches: {plural(calls, 'call')} were never submitted, and go into the next batch")
        return None

    def _lose(self, record: BatchRecord, backend: Backend, error: CallError) -> None:
        self._give_back(record, backend)
        failure = CallError(
            "internal", f"{error}; if it belongs to another account, retry with that account's key"
        )
        calls = self.journal.batches.fail_rest(record.number, failure)
        self.journal.batches.finish(record.number, "lost", {**record.counts, "missing": calls})
        self.changed += 1
        self.report(f"batches: {failure}; {plural(calls, 'call')} failed")

    def _give_back(self, record: BatchRecord, backend: Backend) -> None:
        """Settle what calls of a batch have reserved that will not come."""
        price = self.client.price_of(backend)
        for case_id, read, written in self.journal.batches.reserved_by(record.number):
            self.client.budget.settle(_spend((read, written), price), Spend(), case_id)

    async def _harvest(self, record: BatchRecord, backend: Backend, remote: RemoteBatch) -> None:
        """Store every row, then the missing ones, then delete the files.

        Raises:
            CallError: The results cannot be read now.
        """
        provider, batches = provider_of(backend), self.journal.batches
        if remote.state == "failed" and remote.error_class == "rate_limit":
            self._give_back(record, backend)
            calls = batches.void(record.number)
            self.held = True
            self.report(
                f"batches: {remote.id} was refused for now: {remote.reason}; {plural(calls, 'call')} wait"
            )
            return
        tally: Counter[str] = Counter(record.counts)
        seen: dict[str, int] = {}

        def asked(custom_id: str) -> int:
            return seen.get(custom_id) or batches.samples(custom_id)

        chunk: list[RowResult] = []
        trouble: CallError | None = None
        try:
            async for result in provider.results(remote, asked):
                chunk.append(result)
                if len(chunk) >= _ROWS_A_COMMIT:
                    self._store(record, backend, chunk, tally, seen)
                    chunk.clear()
                    # Harvests must not hold up the progress that is shown.
                    await asyncio.sleep(0)
        except Exception as error:
            trouble = failure_at(backend, error)
        self._store(record, backend, chunk, tally, seen)
        if trouble is not None:
            denied = trouble.error_class == "auth"
            if denied or self._troubles[record.number] + 1 < self.tries:
                raise trouble
        self._give_back(record, backend)
        missing = batches.fail_rest(record.number, trouble or _why(remote))
        tally["missing"] += missing
        self.changed += 1
        batches.finish(record.number, "harvested", {name: n for name, n in tally.items() if n})
        rows = ", ".join(f"{number:,} {name}" for name, number in tally.items() if number) or "no rows"
        self.report(f"batches: {remote.id} {remote.state}: {rows}")
        await self._delete(replace(record, counts=dict(tally)), backend, remote)

    def _store(
        self,
        record: BatchRecord,
        backend: Backend,
        results: Iterable[RowResult],
        tally: Counter[str],
        seen: dict[str, int],
    ) -> None:
        """Store and count the results of some rows of a batch."""
        endpoint = provider_of(backend).endpoint
        rows = [
            (one.custom_id, tuple(_plain(answer, endpoint) for answer in one.answers), _row_failure(one))
            for one in results
        ]
        again = []
        for custom_id, _, _ in rows:
            again.append(custom_id in seen)
            seen.setdefault(custom_id, self.journal.batches.samples(custom_id))
        price = self.client.price_of(backend)
        harvested = self.journal.batches.harvest(record.number, rows)
        for (custom_id, answers, _), one, doubled in zip(rows, harvested, again, strict=True):
            received = size(answer.text for answer in answers)
            count(endpoint, Traffic(0, len(answers), 0, received))
            self._account(one, price)
            # A harvest that was killed reads rows again that it had stored.
            if one.outcome != "doubled" or doubled:
                tally[one.outcome] += 1
            if one.outcome in ("differing", "foreign"):
                self._warn(record, custom_id, one)

    def _account(self, one: Harvested, price: Price | None) -> None:
        self._new.update(bytes.fromhex(key)[:16] for key in one.keys)
        for answer in one.answers:
            self.client.count(answer, price)
        if any(one.most):
            self.client.budget.settle(_spend(one.most, price), spend(one.answers, price), one.case_id)

    def _warn(self, record: BatchRecord, custom_id: str, one: Harvested) -> None:
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            what = (
                "came twice with different content; the first stays"
                if one.outcome == "differing"
                else "is none that was asked for, and is left alone"
            )
            logger.warning("batch %s: row %r %s", record.remote_id, custom_id[:80], what)

    async def _delete(self, record: BatchRecord, backend: Backend, remote: RemoteBatch | None) -> None:
        """Delete files at the provider.

        Raises:
            CallError: They are still there; the next session tries again.
        """
        provider = provider_of(backend)
        if not self.keep_remote:
            try:
                if remote is None:
                    remote = await provider.look(record.remote_id)
                await provider.delete(remote)
            except NoSuchBatch:
                # Gone already.
                pass
            except Exception as error:
                place = f"{provider.endpoint}: files of a harvested batch"
                raise classify(error).at(place, key_variable(backend.name.provider)) from error
        self.journal.batches.finish(record.number, "closed", record.counts)


def _row_failure(result: RowResult) -> CallError | None:
    """The failure of one row, which the account was allowed to submit."""
    failure = result.failure
    if failure is None or failure.error_class != "auth":
        return failure
    return failure.of_request()


def provider_of(backend: Backend) -> BatchProvider:
    """What takes the batches of a model that has them."""
    assert backend.batches is not None
    return backend.batches.provider


def failure_at(backend: Backend, error: Exception) -> CallError:
    """Classify the failure of a request to the provider of a model's batches."""
    return classify(error).at(provider_of(backend).endpoint, key_variable(backend.name.provider))


def _why(remote: RemoteBatch) -> CallError:
    error_class, words = _WHY.get(remote.state, _WHY["ended"])
    if remote.state == "failed":
        return CallError(remote.error_class, f"{words}: {remote.reason or 'no reason given'}")
    return CallError(error_class, words)


def _plain(answer: Answer, endpoint: str) -> Answer:
    """As an exchange gives it: a model can end in half a surrogate pair, which cannot be stored."""
    return replace(answer, text=answer.text.encode(errors="replace").decode(), server=endpoint)


def _spend(most: tuple[int, int], price: Price | None) -> Spend:
    read, written = most
    return Spend(read + written, price.cost(read, written) if price else 0.0)
