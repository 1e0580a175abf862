"""R votes on which sentences of the note are essential (TAMU 2026, stage 1 of section 4.1.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.records import Decision, Shown, Vote, decision
from nodes.evidence.labelling_prompt import labelling_prompt
from nodes.evidence.voting import ask_for_votes, vote_tokens
from serving.messages import Message


class LabelEvidenceInput(TypedDict):
    """What the node reads; the last four once it is asked for further votes."""

    case_id: str
    patient_question: NotRequired[str]
    evidence_demonstrations: list[Shown]
    votes: NotRequired[list[Vote]]
    asked_votes: NotRequired[int]
    more_votes: NotRequired[int]
    shown_demonstrations: NotRequired[list[str]]


class LabelEvidenceUpdate(TypedDict):
    """What the node owns.

    `votes` are the new ones, `asked_votes` counts those of earlier rounds too, `shown_demonstrations` are
    the ids that fitted, in prompt order.
    """

    votes: list[Vote]
    asked_votes: int
    shown_demonstrations: list[str]
    decisions: list[Decision]


def prompt_order(ids: Sequence[str], order: Literal["canonical", "similar_last"]) -> list[str]:
    """Ids of demonstrations, given nearest first, in the order that the prompt shows them."""
    return sorted(ids) if order == "canonical" else list(reversed(ids))


async def label_evidence(state: LabelEvidenceInput, runtime: Runtime[Context]) -> LabelEvidenceUpdate:
    """Ask the `label` model for the next votes; those that fail are missing, and counted as such."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    if not case.sentences:
        raise NodeFailure("invalid_input", "the note has no sentences")
    settings = context.settings.evidence
    question = state.get("patient_question", case.question)

    asked = state.get("asked_votes", 0)
    new = state.get("more_votes", 0) if asked else settings.first_votes
    prompt = await _prompt(state, context, case, question)
    ballot = await ask_for_votes(context, case, prompt.messages, range(asked, asked + new))
    usable = len(state.get("votes", ())) + len(ballot.votes)
    ballot.demand(usable, asked + new, settings.needed_votes(asked + new))
    return {
        "votes": ballot.votes,
        "asked_votes": asked + new,
        "shown_demonstrations": prompt.kept,
        "decisions": decision(
            "label_evidence",
            _because(len(ballot.votes), new, bool(asked), len(prompt.kept), prompt.dropped),
            {
                **ballot.facts,
                "demonstrations": prompt.kept,
                "dropped_demonstrations": prompt.dropped,
            },
            ballot.calls,
            flags=[*ballot.flags, *(["dropped_demonstrations"] if prompt.dropped else [])],
        ),
    }


async def _prompt(state: LabelEvidenceInput, context: Context, case: Case, question: str) -> Fitted:
    """The prompt of the first votes, and the very same for further ones."""
    settings = context.settings.evidence
    reply_tokens = vote_tokens(context, case)
    if state.get("asked_votes"):
        shown = state["shown_demonstrations"]
        return Fitted(labelling_prompt(context, case, question, shown), shown, [])

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = prompt_order(ids, settings.order)
        return labelling_prompt(context, case, question, ordered), ordered

    return await fit_prompt(
        context.client,
        "label",
        [one["case_id"] for one in state["evidence_demonstrations"]],
        render,
        reply_tokens=reply_tokens,
        # A reflection goes on with this conversation: its instruction and a second reply.
        later_tokens=reply_tokens + 256 if settings.reflection else 0,
    )


def _because(got: int, wanted: int, further: bool, demonstrations: int, dropped: Sequence[str]) -> str:
    left_out = f"; {len(dropped)} left out, the context window is full" if dropped else ""
    votes = f"{got} of {wanted} {'further ' if further else ''}votes"
    return f"{votes} on one prompt with {demonstrations} demonstrations{left_out}"
