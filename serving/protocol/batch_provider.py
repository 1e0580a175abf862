"""Interface of batch providers: write, submit, find and read requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from serving.protocol.abilities import Abilities
from serving.protocol.errors import CallError, ErrorClass
from serving.protocol.messages import Answer
from serving.protocol.request import AnyRequest, Constraint

BatchState = Literal["preparing", "running", "ended", "expired", "cancelled", "failed"]
"""As a batch passes them; the last four are final, and all but `failed` may have results."""


Asked = Callable[[str], int]
"""How many samples the row of a custom id asked for; 0 for one that is not known."""


class NoSuchBatch(CallError):
    """The account has no batch of this identifier: it is another account's, was deleted, or was lost."""

    def __init__(self, batch_id: str, place: str) -> None:
        super().__init__("internal", f"{place} has no batch {batch_id[:200]!r} for this key")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of one batch.

    Attributes:
        requests: Rows.
        bytes: Of all rows as they are sent.
        hours: After which the provider gives up.
        price_share: Price of a batched call as a share of the same call's price by itself.
    """

    requests: int
    bytes: int
    hours: float = 24.0
    price_share: float = 0.5


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One request in a batch.

    Attributes:
        custom_id: The key of its call in the journal; unique within a batch.
        body: As the provider's own client would send it by itself.
    """

    custom_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as its provider knows it.

    Attributes:
        id: The provider's.
        metadata: Metadata of the submission, as far as the provider keeps it.
        requests: Number of rows; None if the provider does not report it.
        created: By the provider's clock, with its time zone.
        expires: The same; None where it is not known.
        files: Identifiers of the uploaded and result files that it has there.
        reason: Why it failed, in the provider's words, as one line.
        error_class: Of that failure; `rate_limit` where the same batch may be accepted later.
        certain: Whether it is known to hold the rows that were looked for. Where a provider keeps no
            metadata, one that runs may be somebody else's, and only its results say. While there is such a
            candidate the rows must not be submitted again.
    """

    id: str
    state: BatchState
    metadata: Mapping[str, str]
    requests: int | None = None
    done: int | None = None
    created: datetime | None = None
    expires: datetime | None = None
    files: tuple[str, ...] = ()
    reason: str = ""
    error_class: ErrorClass = "internal"
    certain: bool = True

    @property
    def final(self) -> bool:
        return self.state not in ("preparing", "running")


@dataclass(frozen=True, slots=True)
class RowResult:
    """Result of one row: its answers, or its classified failure.

    Answers are as a server's `complete` gives them: there may be fewer than were asked for, and counts of
    tokens may be unknown.
    """

    custom_id: str
    answers: tuple[Answer, ...] = ()
    failure: CallError | None = None


class BatchProvider(Protocol):
    """One provider's batches for one model.

    Every method may raise what `serving.errors.classify` reads. None tries again by itself: after a submit
    that failed, however it failed, the batch may exist all the same, so it has to be looked for.

    Attributes:
        endpoint: Names where requests go, as the online backend names it.
        limits: Limits of one batch.
        retention: The provider's data retention, in one sentence.
    """

    endpoint: str
    limits: BatchLimits
    retention: str

    def row(self, custom_id: str, request: AnyRequest) -> BatchRow:
        """The request as a row; its body is the one that the online backend of this provider would send."""
        ...

    def encoded(self, row: BatchRow) -> bytes:
        """The row as sent; its length counts against the limits."""
        ...

    async def mark(self) -> Mapping[str, str]:
        """Metadata to add to those of the next batch, and to journal with the intent to submit it.

        With it `found` works even where a provider keeps no metadata.
        """
        ...

    async def submit(self, rows: Iterable[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        """Upload rows and start a batch. `metadata` comes back in `found`, so that none is ever lost.

        Args:
            rows: Read once, and not kept.
            metadata: At most 14 keys of up to 64 characters, with values of up to 512. `nonce` is among
                them: letters and digits, up to 16, that no other batch has; and what `mark` gave.
        """
        ...

    def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        """All batches of this account whose metadata has these values, the newest first, page by page."""
        ...

    async def look(self, batch_id: str) -> RemoteBatch:
        """Current state of the batch.

        Raises:
            NoSuchBatch: The account has none of this identifier.
        """
        ...

    def results(self, batch: RemoteBatch, asked: Asked) -> AsyncIterator[RowResult]:
        """Each row that has a result, in the provider's order; rows may be missing, doubled or foreign.

        Raises:
            CallError: At the end, if something in between was no result; all others have been given.
        """
        ...

    async def delete(self, batch: RemoteBatch) -> None:
        """Delete its uploaded and result files there, as far as the provider lets one."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchModel:
    """A model whose calls go in batches: its provider, and what its requests may ask for.

    Attributes:
        provider: Takes its batches.
        max_samples: How many samples one row can ask for.
        logprobs: Whether log-probabilities can be had.
        constraints: How replies can be constrained to a schema, the best first.
        abilities: What its requests may contain.
    """

    provider: BatchProvider
    max_samples: int = 1
    logprobs: bool = False
    constraints: tuple[Constraint, ...] = field(default=("none",))
    abilities: Abilities = field(default_factory=Abilities)

    @property
    def many_samples(self) -> bool:
        return self.max_samples > 1
