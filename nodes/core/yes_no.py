"""Questions that a model answers with Yes or No, read as the log-odds of one token.

All questions on a case share the conversation up to their last turn, byte for byte, so a prefix cache serves
them; nothing is decoded beyond the first token and nothing is drawn. Pointwise relevance from the probability
of one word follows Nogueira et al. (2020, section 3) and Sachan et al. (2022).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from nodes.core.ballot import Ballot
from nodes.core.choice_confidence import choice_log_odds
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from serving.protocol.errors import CallError
from serving.protocol.messages import Message
from serving.protocol.model_name import Role
from serving.protocol.reply import ReplyFormat
from serving.protocol.request import Failure, Reply, Request

YES, NO = "Yes", "No"
ONE_TOKEN = 1
_DIGITS = 4


def yes_or_no(name: str) -> ReplyFormat[str]:
    """The reply's format; its text says less than the probabilities, so any will do."""
    return ReplyFormat(name, None, str, may_be_cut=True, choices=(YES, NO))


async def ask_yes_or_no(
    context: Context,
    role: Role,
    case_id: str,
    questions: Mapping[str, tuple[Message, ...]],
    reply: ReplyFormat[str],
    counted: str,
    at_least: int = 1,
) -> Ballot[float]:
    """Log-odds of Yes by the id of what is asked about, all asked at once.

    A question is missing where the model refuses, or where neither word is among the tokens that it says:
    asking again would not help. Any other failure is the case's own, because a question without a reply would
    look like one that was answered with No; a retry asks only for those that have no reply.

    Args:
        context: Of the case; the model must give log-probabilities.
        role: Who is asked.
        case_id: Of the case.
        questions: Messages by id; at least one.
        reply: As `yes_or_no` makes it.
        counted: Subject of the questions, in words for a message.
        at_least: Replies that there must be.

    Raises:
        NodeFailure: A call failed for another reason, or there are fewer replies.
    """
    ballot = await Ballot.gathered(
        {id_: _ask(context, role, case_id, messages, reply) for id_, messages in questions.items()}
    )
    if ballot.retriable or len(ballot.replies) < at_least:
        error = (ballot.retriable or [one.error for one in ballot.failures.values()])[0]
        raise NodeFailure(
            error.error_class, f"{len(ballot.replies)} of {len(questions)} {counted}: {error}", ballot.calls
        )
    return ballot


def probability(log_odds: float) -> float:
    """P(Yes) to eight digits, so that probabilities tie no more often than their log-odds do."""
    return float(f"{1 / (1 + math.exp(-log_odds)):.8g}")


async def _ask(
    context: Context, role: Role, case_id: str, messages: tuple[Message, ...], reply: ReplyFormat[str]
) -> Reply[float] | Failure:
    (outcome,) = await context.client.ask(
        Request(role, case_id, messages, reply, max_tokens=ONE_TOKEN, seed=context.settings.seed)
    )
    return _weighed(outcome)


def _weighed(outcome: Reply[str] | Failure) -> Reply[float] | Failure:
    if isinstance(outcome, Failure):
        return outcome
    token = next((token for token in outcome.logprobs if token.token.strip()), None)
    found = None if token is None else choice_log_odds(token, YES, NO)
    if found is not None:
        return Reply(round(found, _DIGITS) + 0.0, outcome.text, outcome.calls)
    fault = (
        "the reply came without log-probabilities"
        if token is None
        else f"neither {YES} nor {NO} is among the likeliest tokens"
    )
    return Failure(CallError("invalid_output", fault), outcome.calls)
