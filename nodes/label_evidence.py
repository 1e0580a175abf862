"""R votes on which sentences of the note are essential (TAMU 2026, stage 1 of section 4.1.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.context import Context
from nodes.failure import NodeFailure
from nodes.fitting import fit_prompt
from nodes.labelling_prompt import labelling_prompt
from nodes.records import Decision, Shown, Vote, decision
from nodes.reply_form import REPLY_FORMS
from serving.ask import Ask, CallRecord, Failure, Reply
from serving.journal import Message


class LabelEvidenceInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    evidence_demonstrations: list[Shown]


class LabelEvidenceUpdate(TypedDict):
    """What the node owns. `shown_demonstrations` are the ids that fitted, in prompt order."""

    votes: list[Vote]
    shown_demonstrations: list[str]
    decisions: list[Decision]


def prompt_order(ids: Sequence[str], order: Literal["canonical", "similar_last"]) -> list[str]:
    """Ids of demonstrations, given nearest first, in the order that the prompt shows them."""
    return sorted(ids) if order == "canonical" else list(reversed(ids))


async def label_evidence(state: LabelEvidenceInput, runtime: Runtime[Context]) -> LabelEvidenceUpdate:
    """Ask the `label` model R times; votes that fail are missing, and counted as such."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    if not case.sentences:
        raise NodeFailure("invalid_input", "the note has no sentences")
    settings = context.settings.evidence
    question = state.get("patient_question", case.question)
    form = REPLY_FORMS[settings.reply]
    max_tokens = form.tokens(case.sentence_ids)

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = prompt_order(ids, settings.order)
        return labelling_prompt(context, case, question, ordered), ordered

    prompt = await fit_prompt(
        context.client,
        "label",
        [one["case_id"] for one in state["evidence_demonstrations"]],
        render,
        reply_tokens=max_tokens,
        # A reflection goes on with this conversation: its instruction and a second reply.
        later_tokens=max_tokens + 256 if settings.reflection else 0,
    )
    outcomes = await context.client.ask(
        Ask(
            role="label",
            case_id=case.id,
            messages=prompt.messages,
            reply=form.reply(case.sentence_ids, ()),
            samples=tuple(range(settings.votes)),
            temperature=settings.temperature,
            max_tokens=max_tokens,
            seed=context.settings.seed,
        )
    )
    votes = [
        Vote(vote=index, essential=outcome.value)
        for index, outcome in enumerate(outcomes)
        if isinstance(outcome, Reply)
    ]
    rescued = _rescued(outcomes)
    calls = [call for outcome in outcomes for call in outcome.calls]
    failures = {
        str(index): f"{outcome.error.error_class}: {outcome.error}"
        for index, outcome in enumerate(outcomes)
        if isinstance(outcome, Failure)
    }
    _demand(len(votes), settings.needed_votes, outcomes, calls)
    return {
        "votes": votes,
        "shown_demonstrations": prompt.kept,
        "decisions": decision(
            "label_evidence",
            _because(len(votes), settings.votes, len(prompt.kept), prompt.dropped),
            {
                "votes": votes,
                "failed_votes": failures,
                "rescued_votes": rescued,
                "demonstrations": prompt.kept,
                "dropped_demonstrations": prompt.dropped,
            },
            calls,
            flags=[
                *(["missing_votes"] if failures else []),
                *(["incomplete_replies"] if rescued else []),
                *(["dropped_demonstrations"] if prompt.dropped else []),
            ],
        ),
    }


def _demand(
    got: int, needed: int, outcomes: Sequence[Reply[Any] | Failure], calls: Sequence[CallRecord]
) -> None:
    if got >= needed:
        return
    first = next(outcome for outcome in outcomes if isinstance(outcome, Failure))
    raise NodeFailure(
        first.error.error_class,
        f"{got} of {len(outcomes)} votes came back, {needed} are needed: {first.error}",
        calls,
    )


def _rescued(outcomes: Sequence[Reply[Any] | Failure]) -> dict[str, str]:
    return {
        str(index): outcome.rescued
        for index, outcome in enumerate(outcomes)
        if isinstance(outcome, Reply) and outcome.rescued
    }


def _because(got: int, wanted: int, demonstrations: int, dropped: Sequence[str]) -> str:
    left_out = f"; {len(dropped)} left out, the context window is full" if dropped else ""
    return f"{got} of {wanted} votes on one prompt with {demonstrations} demonstrations{left_out}"
