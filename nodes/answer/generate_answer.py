"""An answer from the note and its evidence (TAMU 2026, section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from cases.texts import plural
from nodes.answer.answer_rules import AnswerRules, AnswerSettings, all_faults, made_up_answer
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply
from nodes.core.facts import DROPPED_DEMONSTRATIONS, PLAIN, SHOWN_DEMONSTRATIONS
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, Shown, decision
from nodes.core.wording import CASE_VARIABLES, case_variables, essential_ids, id_list, one_line
from nodes.core.written_text import Attempt, correction_tokens, write_attempt
from nodes.retrieval.demonstration_search import POOL, fit_demonstrations
from prompts import Contract

_LIMITS = frozenset({"max_words", "min_sentences", "max_sentences"})

ANSWER_REPLY = "answer"
"""Name of the reply's format."""


class GenerateAnswerInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    answer_evidence: list[str]
    answer_demonstrations: list[Shown]
    rejected_answers: NotRequired[list[Attempt]]


class GenerateAnswerUpdate(TypedDict):
    draft_answer: str
    decisions: list[Decision]


async def generate_answer(state: GenerateAnswerInput, runtime: Runtime[Context]) -> GenerateAnswerUpdate:
    """Ask the `answer` model; after a rejected attempt the conversation continues with its faults quoted."""
    context = runtime.context
    settings = context.section(AnswerSettings)
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    rejected = state.get("rejected_answers", [])

    prompt = await fit_demonstrations(
        context,
        _prompt_name(settings),
        {
            **_evidence_variables(case, question, state["answer_evidence"]),
            "max_words": str(settings.max_words),
            "min_sentences": str(settings.min_sentences),
            "max_sentences": str(settings.max_sentences),
        },
        [one["case_id"] for one in state["answer_demonstrations"]],
        _demonstration,
        reply_tokens=settings.max_tokens,
        later_tokens=correction_tokens(settings),
    )
    outcome = await write_attempt(
        context, case.id, _prompt_name(settings), prompt.messages, ANSWER_REPLY, settings, rejected
    )
    attempt_number = len(rejected) + 1
    because = f"attempt {attempt_number} with {plural(len(prompt.kept), 'demonstration')}"
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
                **prompt.facts,
                "words": len(outcome.value.split()),
            },
            outcome.calls,
            flags=prompt.flags,
        ),
    }


def _demonstration(case: Case) -> dict[str, str]:
    evidence = _evidence_variables(case, case.question, essential_ids(case))
    return {**evidence, "answer": case.gold.answer or ""}


def _evidence_variables(case: Case, question: str, evidence: Sequence[str]) -> dict[str, str]:
    chosen = frozenset(evidence or case.sentence_ids)
    sentences = [one_line(sentence.text) for sentence in case.sentences if sentence.id in chosen]
    return {
        **case_variables(case, question),
        "evidence": id_list(evidence),
        "essential_sentences": "\n".join(sentences),
    }


def _prompt_name(settings: AnswerSettings) -> str:
    return "answer_from_evidence" if settings.context == "evidence" else "generate_answer"


GENERATE_ANSWER = NodeSpec(
    run=generate_answer,
    sections=(AnswerSettings,),
    tools=(POOL,),
    prompts=(
        Contract(
            name="generate_answer",
            required=CASE_VARIABLES | {"evidence"},
            optional=_LIMITS,
            demonstration=CASE_VARIABLES | {"evidence", "answer"},
            correction=True,
        ),
        Contract(
            name="answer_from_evidence",
            required=frozenset({"question", "essential_sentences"}),
            optional=frozenset({"narrative"}) | _LIMITS,
            demonstration=frozenset({"question", "essential_sentences", "answer"}),
            correction=True,
        ),
    ),
    facts={"attempt": PLAIN, "evidence": PLAIN, **SHOWN_DEMONSTRATIONS, "words": PLAIN},
    flags=DROPPED_DEMONSTRATIONS,
    dry_replies={ANSWER_REPLY: made_up_answer},
    corrected=CorrectedReply(
        ANSWER_REPLY,
        "generate_answer",
        lambda recipe: recipe.section(AnswerRules),
        lambda recipe: all_faults(recipe.section(AnswerRules)),
    ),
)
