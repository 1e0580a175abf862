"""Common parts of nodes that answer from retrieved sentences (heiDS 2025, section 2.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from cases.texts import plural
from nodes.answer.answer_rules import AnswerRules, all_faults
from nodes.citing.citations import CitationSettings
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply, DryCall
from nodes.core.facts import plain, whole
from nodes.core.fitting import FittedSentences, fit_sentences
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe
from nodes.core.records import Decision, Retrieved, decision
from nodes.core.wording import CASE_VARIABLES, one_line
from nodes.core.written_text import Attempt, correction_tokens, write_attempt
from prompts import Contract
from serving.protocol.messages import Message

_NOTHING = "(none)"


class RetrievedAnswerInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    retrieved: list[Retrieved]
    rejected_answers: NotRequired[list[Attempt]]


class RetrievedAnswerUpdate(TypedDict):
    """A draft, and the sentences in its prompt, in note order."""

    draft_answer: str
    answer_evidence: list[str]
    decisions: list[Decision]


async def answer_from_retrieved(
    node: str,
    reply: str,
    line: Callable[[str, str], str],
    state: RetrievedAnswerInput,
    context: Context,
) -> RetrievedAnswerUpdate:
    """Ask the `answer` model; after a rejected attempt the conversation continues with its faults quoted.

    Args:
        node: Whose prompt it is, and decision.
        reply: Name of the reply's format.
        line: Id and text of a sentence to its line in the prompt.
        state: Of the case.
        context: Of the case.
    """
    settings = context.section(AnswerRules)
    case = context.cases[state["case_id"]]
    rejected = state.get("rejected_answers", [])
    prompt = await _fitted(node, line, state, context)
    outcome = await write_attempt(context, case.id, node, prompt.messages, reply, settings, rejected)
    chosen = set(prompt.shown)
    return {
        "draft_answer": outcome.value,
        "answer_evidence": [id_ for id_ in case.sentence_ids if id_ in chosen],
        "decisions": decision(
            node,
            _because(prompt, rejected),
            {
                "attempt": len(rejected) + 1,
                "shown": prompt.shown,
                "dropped_sentences": prompt.dropped,
                "words": len(outcome.value.split()),
            },
            outcome.calls,
            flags=["dropped_sentences"] if prompt.dropped else [],
        ),
    }


async def _fitted(
    node: str, line: Callable[[str, str], str], state: RetrievedAnswerInput, context: Context
) -> FittedSentences:
    settings = context.section(AnswerRules)
    case = context.cases[state["case_id"]]
    texts = {sentence.id: one_line(sentence.text) for sentence in case.sentences}
    variables = {**_asked(case, state), "max_words": str(settings.max_words)}

    def render(ids: Sequence[str]) -> tuple[Message, ...]:
        sentences = "\n".join(line(id_, texts[id_]) for id_ in ids)
        return context.messages(node, {**variables, "sentences": sentences})

    return await fit_sentences(
        context.client,
        "answer",
        [one["id"] for one in state["retrieved"]],
        render,
        reply_tokens=settings.max_tokens,
        later_tokens=correction_tokens(settings),
    )


def _asked(case: Case, state: RetrievedAnswerInput) -> dict[str, str]:
    question = case.question.strip() or state.get("patient_question", "")
    return {
        "narrative": one_line(case.narrative) or _NOTHING,
        "question": one_line(question) or _NOTHING,
    }


def _because(prompt: FittedSentences, rejected: Sequence[Attempt]) -> str:
    because = f"attempt {len(rejected) + 1} on {plural(len(prompt.shown), 'sentence')}, the best first"
    if prompt.dropped:
        because += f"; {prompt.dropped} more do not fit the context window"
    if rejected:
        because += f"; after the fault was quoted: {'; '.join(rejected[-1]['faults'])}"
    return because


def retrieved_answer_spec(
    run: Callable[[RetrievedAnswerInput, Runtime[Context]], Awaitable[RetrievedAnswerUpdate]],
    reply: str,
    made_up: Callable[[DryCall], str],
    is_off: Callable[[Recipe], bool],
) -> NodeSpec:
    """A node that writes such an answer.

    Args:
        run: The node; its prompt has its name.
        reply: Name of the reply's format.
        made_up: Writes a reply in a dry run.
        is_off: Whether a recipe that answers asks another node.
    """
    name = run.__name__
    return NodeSpec(
        run=run,
        sections=(AnswerRules, CitationSettings),
        prompts=(
            Contract(name=name, required=CASE_VARIABLES, optional=frozenset({"max_words"}), correction=True),
        ),
        results={"answer_evidence": whole},
        facts=plain("attempt", "shown", "dropped_sentences", "words"),
        flags={"dropped_sentences": "retrieved sentences were left out, as the prompt was too long"},
        dry_replies={reply: made_up},
        corrected=CorrectedReply(
            reply,
            name,
            lambda recipe: recipe.section(AnswerRules),
            lambda recipe: all_faults(recipe.section(AnswerRules)),
        ),
        is_off=lambda recipe: not recipe.answers or is_off(recipe),
    )
