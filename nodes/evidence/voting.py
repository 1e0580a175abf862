"""The labelling conversation, the same for votes and their reflections, and votes on one prompt."""

from __future__ import annotations

from collections.abc import Sequence

from cases.records import Case
from cases.texts import plural
from nodes.core.ballot import Ballot
from nodes.core.context import Context
from nodes.core.records import Vote
from nodes.core.wording import case_variables, essential_ids
from nodes.evidence.reply_forms import REPLY_FORMS, ReplyForm, read_vote
from nodes.evidence.settings import VoteSettings
from nodes.retrieval.demonstration_search import POOL
from serving.protocol.messages import Message
from serving.protocol.request import Request


def labelling_prompt(
    context: Context, case: Case, question: str, demonstration_ids: Sequence[str]
) -> tuple[Message, ...]:
    """Instructions, demonstrations in the given order, the case."""
    shown = [context.tool(POOL).case(case_id) for case_id in demonstration_ids]
    form = REPLY_FORMS[context.section(VoteSettings).reply]
    return context.messages(
        "label_evidence",
        {**case_variables(case, question), "reply_form": form.instruction},
        [_demonstration(one, form) for one in shown],
    )


def _demonstration(case: Case, form: ReplyForm) -> dict[str, str]:
    return {
        **case_variables(case, case.question),
        "labels": form.write(case.sentence_ids, essential_ids(case)),
    }


def vote_tokens(context: Context, case: Case) -> int:
    """Token limit of a vote on the case, in the recipe's form."""
    return REPLY_FORMS[context.section(VoteSettings).reply].tokens(case.sentence_ids)


async def ask_for_votes(
    context: Context,
    case: Case,
    messages: tuple[Message, ...],
    samples: Sequence[int],
    earlier: int = 0,
) -> tuple[list[Vote], Ballot[list[str]]]:
    """Ask the `label` model for these samples, in the recipe's form and at its temperature.

    Args:
        context: Of the case.
        case: That is labelled.
        messages: The prompt.
        samples: Numbers of the votes.
        earlier: Usable votes of earlier rounds.

    Raises:
        NodeFailure: Too few votes came back.
    """
    settings = context.section(VoteSettings)
    form = REPLY_FORMS[settings.reply]
    outcomes = await context.client.ask(
        Request(
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
    ballot = Ballot(dict(zip(map(str, samples), outcomes, strict=True)))
    votes = [read_vote(form, int(name), reply, case.sentence_ids) for name, reply in ballot.replies.items()]
    usable, asked = earlier + len(votes), samples[-1] + 1
    ballot.demand(usable, settings.needed_votes(asked), f"{usable} of {plural(asked, 'vote')} came back")
    return votes, ballot
