"""Votes on one prompt: asked for together, read one by one; those that fail are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cases.records import Case
from cases.texts import plural
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.records import Vote
from nodes.evidence.reply_forms import REPLY_FORMS, read_vote
from nodes.evidence.settings import VoteSettings
from serving.protocol.ask import Ask, CallRecord, Failure, Reply
from serving.protocol.errors import CallError
from serving.protocol.messages import Message


@dataclass(frozen=True, slots=True)
class Ballot:
    """What came of asking.

    Attributes:
        votes: Those that came back.
        failed: Error class and message of the others, by number.
        completed: What was wrong with the replies that were completed, by number.
        calls: All of them.
        first_error: Of the first vote that failed.
    """

    votes: list[Vote]
    failed: Mapping[str, str]
    completed: Mapping[str, str]
    calls: Sequence[CallRecord]
    first_error: CallError | None

    @property
    def facts(self) -> dict[str, Any]:
        """For a decision."""
        return {"votes": self.votes, "failed_votes": self.failed, "rescued_votes": self.completed}

    @property
    def flags(self) -> list[str]:
        """For a decision."""
        missing = ["missing_votes"] if self.failed else []
        return [*missing, *(["incomplete_replies"] if self.completed else [])]

    def demand(self, got: int, asked: int, needed: int) -> None:
        """Go on only with enough votes, those of earlier rounds counted.

        Raises:
            NodeFailure: There are fewer, with the class of the first failure.
        """
        if got >= needed:
            return
        assert self.first_error is not None
        raise NodeFailure(
            self.first_error.error_class,
            f"{got} of {plural(asked, 'vote')} came back, {needed} needed: {self.first_error}",
            self.calls,
        )


def vote_tokens(context: Context, case: Case) -> int:
    """Token limit of a vote on the case, in the recipe's form."""
    return REPLY_FORMS[context.section(VoteSettings).reply].tokens(case.sentence_ids)


async def ask_for_votes(
    context: Context, case: Case, messages: tuple[Message, ...], samples: Sequence[int]
) -> Ballot:
    """Ask the `label` model for these samples, in the recipe's form and at its temperature."""
    settings = context.section(VoteSettings)
    form = REPLY_FORMS[settings.reply]
    outcomes = await context.client.ask(
        Ask(
            role="label",
            case_id=case.id,
            messages=messages,
            reply=form.reply(case.sentence_ids, ()),
            samples=tuple(samples),
            temperature=settings.temperature,
            max_tokens=form.tokens(case.sentence_ids),
            seed=context.settings.seed,
            logprobs=settings.confidence,
        )
    )
    numbered = list(zip(samples, outcomes, strict=True))
    replies = [(index, outcome) for index, outcome in numbered if isinstance(outcome, Reply)]
    failures = [(index, outcome.error) for index, outcome in numbered if isinstance(outcome, Failure)]
    return Ballot(
        votes=[read_vote(form, index, reply, case.sentence_ids) for index, reply in replies],
        failed={str(index): f"{error.error_class}: {error}" for index, error in failures},
        completed={str(index): reply.fallback_fault for index, reply in replies if reply.fallback_fault},
        calls=[call for outcome in outcomes for call in outcome.calls],
        first_error=failures[0][1] if failures else None,
    )
