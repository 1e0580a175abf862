"""An answer from the note and its evidence (TAMU 2026, section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.fitting import fit_prompt
from nodes.core.records import Decision, Shown, decision
from nodes.core.wording import case_variables, id_list
from serving.ask import Ask, Failure
from serving.messages import Message
from serving.reply import ReplyFormat, free_text

ANSWER_REPLY = "answer"
"""Name of the reply's format."""

# A cut answer goes on to `check_answer`, which says what is wrong with it in the words of the rules.
_FREE_TEXT = ReplyFormat(name=ANSWER_REPLY, schema=None, parse=free_text, may_be_cut=True)


class Attempt(TypedDict):
    """An answer that was sent back, and why."""

    text: str
    faults: list[str]


class GenerateAnswerInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    answer_evidence: list[str]
    answer_demonstrations: list[Shown]
    rejected_answers: NotRequired[list[Attempt]]


class GenerateAnswerUpdate(TypedDict):
    """What the node owns."""

    draft_answer: str
    decisions: list[Decision]


async def generate_answer(state: GenerateAnswerInput, runtime: Runtime[Context]) -> GenerateAnswerUpdate:
    """Ask the `answer` model; after a rejected attempt the conversation goes on with its faults quoted."""
    context = runtime.context
    settings = context.settings.answer
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    rejected = state.get("rejected_answers", [])

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = sorted(ids)
        return _prompt(context, case, question, state["answer_evidence"], ordered), ordered

    prompt = await fit_prompt(
        context.client,
        "answer",
        [one["case_id"] for one in state["answer_demonstrations"]],
        render,
        reply_tokens=settings.max_tokens,
        later_tokens=2 * settings.max_tokens * settings.corrections,
    )
    messages = prompt.messages
    for attempt in rejected:
        correction = context.prompts["generate_answer"].render_correction("; ".join(attempt["faults"]))
        messages = (*messages, Message("assistant", attempt["text"]), Message("user", correction))
    (outcome,) = await context.client.ask(
        Ask(
            role="answer",
            case_id=case.id,
            messages=messages,
            reply=_FREE_TEXT,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=context.settings.seed,
        )
    )
    if isinstance(outcome, Failure):
        raise NodeFailure.of(outcome)
    attempt_number = len(rejected) + 1
    because = f"attempt {attempt_number} with {len(prompt.kept)} demonstrations"
    if rejected:
        because += f", after the fault was quoted: {'; '.join(rejected[-1]['faults'])}"
    return {
        "draft_answer": outcome.value,
        "decisions": decision(
            "generate_answer",
            because,
            {
                "attempt": attempt_number,
                "evidence": state["answer_evidence"],
                "demonstrations": prompt.kept,
                "dropped_demonstrations": prompt.dropped,
                "words": len(outcome.value.split()),
            },
            outcome.calls,
            flags=["dropped_demonstrations"] if prompt.dropped else [],
        ),
    }


def _prompt(
    context: Context, case: Case, question: str, evidence: Sequence[str], demonstration_ids: Sequence[str]
) -> tuple[Message, ...]:
    settings = context.settings.answer
    variables = {
        **case_variables(case, question),
        "evidence": id_list(evidence),
        "max_words": str(settings.max_words),
        "min_sentences": str(settings.min_sentences),
        "max_sentences": str(settings.max_sentences),
    }
    pool = context.demonstrations
    shown = [_demonstration(pool.case(case_id)) for case_id in demonstration_ids] if pool else []
    turns = context.prompts["generate_answer"].render(variables, shown)
    return tuple(Message(role, text) for role, text in turns)


def _demonstration(case: Case) -> dict[str, str]:
    labels = case.gold.labels or {}
    return {
        **case_variables(case, case.question),
        "evidence": id_list([id_ for id_ in case.sentence_ids if labels.get(id_) == "essential"]),
        "answer": case.gold.answer or "",
    }
