"""A provider of batches in this process, for tests of what is on our side of its protocol."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from serving.protocol.batch_provider import (
    Asked,
    BatchLimits,
    BatchRow,
    BatchState,
    NoSuchBatch,
    RemoteBatch,
    RowResult,
)
from serving.protocol.errors import CallError, ErrorClass
from serving.protocol.made_up_replies import made_up_text
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest

_ROLES = {"user": "human", "assistant": "ai"}

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Held:
    """A batch of the account."""

    remote: RemoteBatch
    rows: list[BatchRow]
    results: list[RowResult] | None = None


@dataclass(slots=True)
class Account:
    """What a provider holds, and the ledger of what it was paid for.

    Attributes:
        paid: How often each row was answered.
        looks: Looks that a batch takes to end.
        end: The state in which the next batches end.
        error_class: Of those that fail.
        results: Makes the results of a batch of its rows' own.
        on_submit: Called with the rows before a batch is made; may raise.
        lose_answer: Make the batch, and then fail as if the connection was lost.
        hidden: Whether lists of batches fail.
    """

    batches: dict[str, Held] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    deleted: list[str] = field(default_factory=list)
    looks: int = 0
    end: BatchState = "ended"
    error_class: ErrorClass = "internal"
    results: Callable[[list[RowResult]], list[RowResult]] = lambda rows: rows
    on_submit: Callable[[Sequence[BatchRow]], None] = lambda rows: None
    lose_answer: bool = False
    hidden: bool = False
    endpoint: str = "openai"
    limits: BatchLimits = field(default_factory=lambda: BatchLimits(requests=1000, bytes=10_000_000))
    retention: str = "the account stores everything for ever"
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _looked: Counter[str] = field(default_factory=Counter)

    def row(self, custom_id: str, request: AnyRequest) -> BatchRow:
        """The replies are made up at once."""
        prompt = [(_ROLES.get(one.role, one.role), one.text) for one in request.messages]
        replies = [
            made_up_text(prompt, sample, request.reply.name, request.schema, request.choices)
            for sample in request.samples
        ]
        return BatchRow(custom_id, {"messages": [one.text for one in request.messages], "replies": replies})

    def encoded(self, row: BatchRow) -> bytes:
        """As JSON."""
        return json.dumps(row.body).encode()

    async def mark(self) -> Mapping[str, str]:
        """Metadata are kept."""
        return {}

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        """Begin a batch; every row of it is paid for."""
        held = list(rows)
        self.on_submit(held)
        name = f"batch_{next(self._numbers)}"
        remote = RemoteBatch(
            name,
            "running",
            dict(metadata),
            len(held),
            0,
            START,
            START + timedelta(hours=24),
            (f"file_{name}",),
        )
        self.batches[name] = Held(remote, held)
        if self.lose_answer:
            raise CallError("connection", "the connection was lost")
        return remote

    async def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        """The newest first."""
        if self.hidden:
            raise CallError("connection", "no list")
        for held in reversed(self.batches.values()):
            if metadata.items() <= held.remote.metadata.items():
                yield held.remote

    async def look(self, batch_id: str) -> RemoteBatch:
        """It ends after some looks."""
        held = self.batches.get(batch_id)
        if held is None:
            raise NoSuchBatch(batch_id, self.endpoint)
        self._looked[batch_id] += 1
        if not held.remote.final and self._looked[batch_id] > self.looks:
            self._finish(held)
        return held.remote

    def _finish(self, held: Held) -> None:
        answered = []
        for row in held.rows:
            answers = tuple(
                Answer(text, "stop", 10 * (not n), 5) for n, text in enumerate(row.body["replies"])
            )
            answered.append(RowResult(row.custom_id, answers))
        held.results = self.results(answered) if self.end != "failed" else []
        self.paid.update(one.custom_id for one in held.results if one.answers)
        done = len(held.results)
        held.remote = replace(held.remote, state=self.end, error_class=self.error_class, done=done)

    async def results_of(self, batch: RemoteBatch) -> list[RowResult]:
        """Of a batch that has ended."""
        return self.batches[batch.id].results or []

    async def delete(self, batch: RemoteBatch) -> None:
        """Remember that."""
        self.deleted.append(batch.id)

    async def aclose(self) -> None:
        """Nothing is open."""


class Provider:
    """One connection to an account."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.endpoint, self.limits, self.retention = account.endpoint, account.limits, account.retention

    def __getattr__(self, name: str) -> object:
        return getattr(self._account, name)

    async def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        """In the account's order."""
        for one in await self._account.results_of(batch):
            yield one
