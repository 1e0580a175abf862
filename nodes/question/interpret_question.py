"""The question that a clinician would ask, read out of a patient's message (ArchEHR-QA 2026, subtask 1).

The case's own clinician question is what this node predicts: neither its prompt nor its search for
demonstrations may see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.fitting import Fitted, fit_prompt
from nodes.core.records import Decision, decision
from nodes.core.settings import Settings
from nodes.core.wording import one_line
from nodes.core.written_text import Rules, WrittenText, write_text
from nodes.question.question_rules import bare_question, cut_question, find_question_faults
from nodes.retrieval.demonstration_search import Found, nearest_fitting
from retrieval.demonstrations import DemonstrationPool
from serving.messages import Message
from serving.reply import ReplyFormat, free_text

QUESTION_REPLY = "question"
"""Name of the reply's format."""

# A cut question is held to its rules like any other.
_FREE_TEXT = ReplyFormat(name=QUESTION_REPLY, schema=None, parse=free_text, may_be_cut=True)


class InterpretQuestionInput(TypedDict):
    """What the node reads."""

    case_id: str


class InterpretQuestionUpdate(TypedDict):
    """What the node owns; without a patient's message there is no question.

    `patient_question` is the same question, where the case has no clinician question of its own.
    """

    interpreted_question: NotRequired[str]
    patient_question: NotRequired[str]
    decisions: list[Decision]


async def choose_by_narrative(pool: DemonstrationPool, case: Case, settings: Settings) -> Found:
    """The K nearest cases by the patient's message alone.

    Never the case itself, nor the same message under another id or with another question, nor one held out.
    """
    excluded = pool.twins(case) | set(settings.held_out)
    message = one_line(case.narrative)
    own = message.lower()

    def fits(other: Case) -> bool:
        theirs = one_line(other.narrative).lower()
        return bool(other.question.strip()) and bool(theirs) and theirs != own

    wanted = settings.question.demonstrations
    return Found(await nearest_fitting(pool, "evidence", message, wanted, excluded, fits), excluded)


async def interpret_question(
    state: InterpretQuestionInput, runtime: Runtime[Context]
) -> InterpretQuestionUpdate:
    """Ask the `answer` model; a question that breaks its rules goes back, then is cut and flagged."""
    context = runtime.context
    case = context.cases[state["case_id"]]
    pool = context.demonstrations
    if not case.narrative.strip():
        because = "the case has no patient's message to read a question out of"
        if context.settings.stop_after == "question":
            raise NodeFailure("invalid_input", because)
        return {"decisions": decision("interpret_question", because, {"chosen": []}, flags=["no_narrative"])}
    found = Found([], frozenset())
    if pool is not None and context.settings.question.demonstrations:
        found = await choose_by_narrative(pool, case, context.settings)
    prompt = await _prompt(context, case, found)
    written = await _write(context, case, prompt)
    stands_in = not case.question.strip()
    update = InterpretQuestionUpdate(interpreted_question=written.text, decisions=[])
    if stands_in:
        update["patient_question"] = written.text
    update["decisions"] = decision(
        "interpret_question",
        _because(written, len(prompt.kept), stands_in),
        {
            "chosen": found.shown,
            "excluded": sorted(found.excluded),
            "demonstrations": prompt.kept,
            "dropped_demonstrations": prompt.dropped,
            "attempts": len(written.faults) + (not written.cut),
            "faults": written.faults,
            "words": len(written.text.split()),
            "stands_in": stands_in,
        },
        written.calls,
        flags=[
            *(["no_clinician_question"] if stands_in else []),
            *(["question_breaks_rules"] if written.cut else []),
            *(["dropped_demonstrations"] if prompt.dropped else []),
        ],
    )
    return update


async def _prompt(context: Context, case: Case, found: Found) -> Fitted:
    settings = context.settings.question

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        ordered = sorted(ids)
        pool = context.demonstrations
        demonstrations = [_demonstration(pool.case(case_id)) for case_id in ordered] if pool else []
        variables = {"narrative": one_line(case.narrative), "max_words": str(settings.max_words)}
        turns = context.prompts["interpret_question"].render(variables, demonstrations)
        return tuple(Message(role, text) for role, text in turns), ordered

    return await fit_prompt(
        context.client,
        "answer",
        [one["case_id"] for one in found.shown],
        render,
        reply_tokens=settings.max_tokens,
        later_tokens=2 * settings.max_tokens * settings.corrections,
    )


async def _write(context: Context, case: Case, prompt: Fitted) -> WrittenText:
    """Attempts in one conversation.

    Raises:
        NodeFailure: A call failed, or nothing is left of the last attempt.
    """
    settings = context.settings.question
    rules = Rules(
        bare_question,
        lambda text: find_question_faults(text, settings.max_words),
        lambda text: cut_question(text, settings.max_words),
    )
    written = await write_text(
        context, case.id, "interpret_question", prompt.messages, _FREE_TEXT, settings, rules
    )
    if not written.text:
        raise NodeFailure(
            "invalid_output", "the question is empty without its quotation marks", written.calls
        )
    return written


def _demonstration(case: Case) -> dict[str, str]:
    return {"narrative": one_line(case.narrative), "question": one_line(case.question)}


def _because(written: WrittenText, demonstrations: int, stands_in: bool) -> str:
    words = f"a question of {len(written.text.split())} words with {demonstrations} demonstrations"
    if written.cut:
        words += f", cut after {len(written.faults) - 1} corrections: {'; '.join(written.faults[-1])}"
    elif written.faults:
        words += f", after the fault was quoted: {'; '.join(written.faults[-1])}"
    own = "it is asked, as the case has none" if stands_in else "the case is answered on its own question"
    return f"{words}; {own}"
