"""How a node says that its case cannot go on."""

from __future__ import annotations

from collections.abc import Sequence

from cases.records import Case
from serving.batches.pending import CallPending
from serving.journal.journal import JournalError
from serving.protocol.budget import BudgetSpent
from serving.protocol.errors import CallError, ErrorClass
from serving.protocol.request import CallRecord, Failure


class NodeFailure(Exception):
    """A case ends here as failed; the calls made so far are kept for the trace."""

    def __init__(self, error_class: ErrorClass, message: str, calls: Sequence[CallRecord] = ()) -> None:
        self.error_class: ErrorClass = error_class
        self.calls = tuple(calls)
        super().__init__(message)

    @classmethod
    def of(cls, failure: Failure) -> NodeFailure:
        """A node failure for a failed call."""
        return cls(failure.error.error_class, str(failure.error), failure.calls)


def demand_sentences(case: Case) -> None:
    """Go on only with a note.

    Raises:
        NodeFailure: It has no sentences.
    """
    if not case.sentences:
        raise NodeFailure("invalid_input", "the note has no sentences")


def as_failure(error: BaseException) -> NodeFailure:
    """Any exception of a node as a `NodeFailure`.

    Raises:
        JournalError, BudgetSpent: What ends the run is not the failure of one case.
        CallError: A service denies access, which every other case would meet as well.
        CallPending: The case has not failed, it waits.
    """
    if isinstance(error, (JournalError, BudgetSpent, CallPending)):
        raise error
    if isinstance(error, NodeFailure):
        return error
    if isinstance(error, CallError):
        if error.error_class == "auth":
            raise error
        return NodeFailure(error.error_class, str(error))
    return NodeFailure("internal", f"{type(error).__name__}: {error}")
