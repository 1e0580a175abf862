"""A vote looks at its own labels once more (TAMU 2026, stage 2 of section 4.1.3)."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.core.context import Context
from nodes.core.facts import INCOMPLETE, Fact, in_brackets, plain
from nodes.core.failure import NodeFailure, as_failure
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, Vote, decision
from nodes.core.wording import CASE_VARIABLES, case_variables
from nodes.evidence.reply_forms import REPLY_FORMS, read_vote
from nodes.evidence.settings import EvidenceSettings
from nodes.evidence.voting import labelling_prompt
from nodes.retrieval.demonstration_search import POOL
from prompts import Contract
from serving.protocol.errors import CallError
from serving.protocol.messages import Message
from serving.protocol.request import Failure, Reply, Request


class ReflectOnLabelsInput(TypedDict):
    """One vote of the fan-out, with what is needed to rebuild its conversation."""

    case_id: str
    patient_question: NotRequired[str]
    shown_demonstrations: list[str]
    vote: Vote


class ReflectOnLabelsUpdate(TypedDict):
    reflected_votes: list[Vote]
    decisions: list[Decision]


async def reflect_on_labels(state: ReflectOnLabelsInput, runtime: Runtime[Context]) -> ReflectOnLabelsUpdate:
    """Ask the `reflect` model; without a usable reply the vote keeps its first labels."""
    vote = state["vote"]
    try:
        outcome = await _ask(state, runtime.context)
    except (NodeFailure, CallError) as error:
        # Handled here, so that one vote of the fan-out takes no other with it.
        return _first_labels(vote, as_failure(error))
    if isinstance(outcome, Failure):
        return _first_labels(vote, NodeFailure.of(outcome))
    context = runtime.context
    form = REPLY_FORMS[context.section(EvidenceSettings).reply]
    added = [id_ for id_ in outcome.value if id_ not in vote["essential"]]
    removed = [id_ for id_ in vote["essential"] if id_ not in outcome.value]
    return {
        "reflected_votes": [
            read_vote(form, vote["vote"], outcome, context.cases[state["case_id"]].sentence_ids)
        ],
        "decisions": decision(
            "reflect_on_labels",
            _because(added, removed),
            {
                "vote": vote["vote"],
                "before": vote["essential"],
                "after": outcome.value,
                "added": added,
                "removed": removed,
                "rescued": outcome.fallback_fault,
            },
            outcome.calls,
            flags=["incomplete_replies"] if outcome.fallback_fault else [],
        ),
    }


async def _ask(state: ReflectOnLabelsInput, context: Context) -> Reply[list[str]] | Failure:
    case = context.cases[state["case_id"]]
    vote = state["vote"]
    settings = context.section(EvidenceSettings)
    question = state.get("patient_question", case.question)
    form = REPLY_FORMS[settings.reply]
    labels = form.write(case.sentence_ids, vote["essential"])
    variables = {**case_variables(case, question), "labels": labels, "reply_form": form.instruction}
    earlier: tuple[Message, ...] = ()
    if context.prompts["reflect_on_labels"].file.continues is not None:
        conversation = labelling_prompt(context, case, question, state["shown_demonstrations"])
        earlier = (*conversation, Message("assistant", labels))
    (outcome,) = await context.client.ask(
        Request(
            role="reflect",
            case_id=case.id,
            messages=(*earlier, *context.messages("reflect_on_labels", variables)),
            reply=form.reply(case.sentence_ids, vote["essential"]),
            samples=(vote["vote"],),
            temperature=settings.reflection_temperature,
            max_tokens=form.tokens(case.sentence_ids),
            seed=context.settings.seed,
            logprobs=settings.confidence,
        )
    )
    return outcome


def _first_labels(vote: Vote, failure: NodeFailure) -> ReflectOnLabelsUpdate:
    return {
        "reflected_votes": [vote],
        "decisions": decision(
            "reflect_on_labels",
            f"no usable reflection ({failure.error_class}: {failure}); keeping the first labels",
            {
                "vote": vote["vote"],
                "before": vote["essential"],
                "after": vote["essential"],
                "added": [],
                "removed": [],
                "error_class": failure.error_class,
            },
            failure.calls,
            flags=["failed_reflections"],
        ),
    }


def _because(added: list[str], removed: list[str]) -> str:
    if not added and not removed:
        return "reflection changed nothing"
    parts = [f"added {', '.join(added)}"] if added else []
    parts += [f"removed {', '.join(removed)}"] if removed else []
    return f"reflection {' and '.join(parts)}"


REFLECT_ON_LABELS = NodeSpec(
    run=reflect_on_labels,
    role="reflection",
    sections=(EvidenceSettings,),
    tools=(POOL,),
    prompts=(
        Contract(
            name="reflect_on_labels",
            required=frozenset(),
            optional=CASE_VARIABLES | {"labels", "reply_form"},
            continues="label_evidence",
        ),
    ),
    facts={
        "vote": Fact(
            rows=lambda vote, facts: [
                (f"vote {vote}", f"{in_brackets(facts['before'])} -> {in_brackets(facts['after'])}")
            ]
        ),
        "rescued": Fact(keep=bool),
        **plain("before", "after", "added", "removed", "error_class"),
    },
    flags={
        **INCOMPLETE,
        "failed_reflections": "a vote could not be reflected on; its first labels were kept",
    },
    impairs=("failed_reflections",),
)
