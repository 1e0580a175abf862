"""Replies to a question that was asked several times, or of several things; failed ones are missing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nodes.core.failure import NodeFailure
from nodes.core.records import raised
from serving.protocol.errors import CallError
from serving.protocol.request import CallRecord, Failure, Reply

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ballot(Generic[T]):
    """All outcomes.

    Attributes:
        outcomes: Outcomes by number of the vote or id of the sentence, in the order of requests.
    """

    outcomes: Mapping[str, Reply[T] | Failure]

    @classmethod
    async def gathered(cls, asked: Mapping[str, Coroutine[Any, Any, Reply[T] | Failure]]) -> Ballot[T]:
        """Outcomes of requests that are made at once; one that ends the run cancels the others."""
        tasks = [asyncio.create_task(one) for one in asked.values()]
        try:
            outcomes = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return cls(dict(zip(asked, outcomes, strict=True)))

    @property
    def replies(self) -> dict[str, Reply[T]]:
        return {name: one for name, one in self.outcomes.items() if isinstance(one, Reply)}

    @property
    def failures(self) -> dict[str, Failure]:
        return {name: one for name, one in self.outcomes.items() if isinstance(one, Failure)}

    @property
    def failed(self) -> dict[str, str]:
        """Error class and message of those that are missing."""
        return {name: f"{one.error.error_class}: {one.error}" for name, one in self.failures.items()}

    @property
    def completed(self) -> dict[str, str]:
        """Faults of the replies that only the forgiving parser could read."""
        return {name: one.fallback_fault for name, one in self.replies.items() if one.fallback_fault}

    @property
    def calls(self) -> list[CallRecord]:
        return [call for outcome in self.outcomes.values() for call in outcome.calls]

    @property
    def facts(self) -> dict[str, Any]:
        return {"failed_votes": self.failed, "rescued_votes": self.completed}

    @property
    def flags(self) -> list[str]:
        return raised(missing_votes=self.failures, incomplete_replies=self.completed)

    @property
    def retriable(self) -> list[CallError]:
        """Errors after which asking again may help; a refusal or an unreadable reply would come again."""
        errors = (one.error for one in self.failures.values())
        return [one for one in errors if one.error_class not in ("refusal", "invalid_output")]

    def demand_final(self) -> None:
        """Go on only without what a retry may bring: it must not look like what the model cannot give.

        Raises:
            NodeFailure: A call failed that a retry may answer.
        """
        if self.retriable:
            first = self.retriable[0]
            raise NodeFailure(first.error_class, str(first), self.calls)

    def demand(self, got: int, needed: int, found: str) -> None:
        """Go on only with enough.

        Args:
            got: How many there are; a node may count those of earlier rounds.
            needed: How many there must be.
            found: The first number in words.

        Raises:
            NodeFailure: There are fewer, with the class of the first failure.
        """
        if got < needed:
            error = next(iter(self.failures.values())).error
            raise NodeFailure(error.error_class, f"{found}, {needed} needed: {error}", self.calls)
