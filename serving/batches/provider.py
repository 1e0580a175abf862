"""What every provider of batches gives: how requests are written, submitted, looked for, and read back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from serving.backends.backend import CallParameters
from serving.errors import CallError
from serving.messages import Answer, Message

BatchState = Literal["preparing", "running", "ended", "expired", "cancelled", "failed"]
"""In the order in which a batch passes them; the last four are final, and all but `failed` may have results."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold.

    Attributes:
        requests: Rows.
        bytes: Of all rows as they are sent.
        tokens: Read and written by all rows, None where the provider sets no such limit.
        hours: After which the provider gives up.
        price_share: Price of a batched call as a share of the same call's price by itself.
    """

    requests: int
    bytes: int
    tokens: int | None = None
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
        metadata: What was given at the submit, as far as the provider keeps it.
        requests: Rows, None where the provider does not say.
        created: By the provider's clock, with its time zone.
        expires: The same; None where it is not known.
        files: Identifiers of the uploaded and result files that it has there.
        reason: Why it failed, in the provider's words, as one line.
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

    @property
    def final(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in ("preparing", "running")


@dataclass(frozen=True, slots=True)
class RowResult:
    """What came back for one row: answers, one for each sample, or the classed failure of this row alone."""

    custom_id: str
    answers: tuple[Answer, ...] = ()
    failure: CallError | None = None


class BatchProvider(Protocol):
    """One provider's batches for one model. Every method may raise what `serving.errors.classify` reads."""

    endpoint: str
    limits: BatchLimits
    retention: str
    """What the provider stores, and for how long, in one sentence."""

    def row(self, custom_id: str, messages: Sequence[Message], call: CallParameters) -> BatchRow:
        """The request as a row; its body is the one that the online backend of this provider would send."""
        ...

    async def submit(self, rows: Sequence[BatchRow], metadata: Mapping[str, str]) -> RemoteBatch:
        """Upload rows and start a batch. `metadata` comes back in `found`, so that none is ever lost."""
        ...

    def found(self, metadata: Mapping[str, str]) -> AsyncIterator[RemoteBatch]:
        """All batches of this account whose metadata has these values, the newest first, page by page."""
        ...

    async def look(self, batch_id: str) -> RemoteBatch:
        """The batch as it is now.

        Raises:
            CallError: Of class `not_found` semantics: the account has no such batch.
        """
        ...

    def results(self, batch: RemoteBatch) -> AsyncIterator[RowResult]:
        """Each row that has a result, in the provider's order; rows may be missing, doubled or foreign."""
        ...

    async def cancel(self, batch_id: str) -> None:
        """Ask for its end; what is done stays to be read."""
        ...

    async def delete(self, batch: RemoteBatch) -> None:
        """Delete its uploaded and result files there, as far as the provider lets one."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True)
class BatchModel:
    """A model whose calls go in batches: its provider, and what its requests may ask for."""

    provider: BatchProvider
    many_samples: bool = False
    logprobs: bool = False
    takes_seed: bool = False
    constraints: tuple[str, ...] = field(default=("none",))
