"""An answer from retrieved sentences, with citations or without (heiDS 2025, section 2.4).

One node asks for citations. The other numbers no sentences: its answer is attributed afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Case
from nodes.answer.answer_rules import AnswerRules, all_faults, made_up_answer
from nodes.answer.citations import CitationSettings, attributes
from nodes.answer.generate_answer import ANSWER_REPLY, Attempt
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply, DryCall, made_up_sentences
from nodes.core.facts import plain, whole
from nodes.core.failure import NodeFailure
from nodes.core.fitting import FittedSentences, fit_sentences
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe
from nodes.core.records import Decision, Retrieved, decision
from nodes.core.wording import CASE_VARIABLES, one_line
from prompts import Contract
from serving.ask import Failure
from serving.made_up_replies import numbered_ids
from serving.messages import Message
from serving.reply import CITED_TEXT, ReplyFormat, free_text

_NOTHING = "(none)"

CITED_ANSWER_REPLY = CITED_TEXT
"""Name of the reply's format."""

_CITED_SENTENCES = 2
"""Note sentences for each sentence of a made-up answer; 2.0 on average in the packaged cases."""


class RetrievedAnswerInput(TypedDict):
    """What a node reads that writes an answer from retrieved sentences."""

    case_id: str
    patient_question: NotRequired[str]
    retrieved: list[Retrieved]
    rejected_answers: NotRequired[list[Attempt]]


class RetrievedAnswerUpdate(TypedDict):
    """What it owns: a draft, and the sentences that its prompt showed, in note order."""

    draft_answer: str
    answer_evidence: list[str]
    decisions: list[Decision]


async def _answer_from_retrieved(
    node: str,
    reply: str,
    line: Callable[[str, str], str],
    state: RetrievedAnswerInput,
    context: Context,
) -> RetrievedAnswerUpdate:
    """Ask the `answer` model; after a rejected attempt the conversation goes on with its faults quoted.

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
    messages = prompt.messages
    for attempt in rejected:
        messages = context.corrected(node, messages, attempt["text"], attempt["faults"])
    # A cut answer is still of use: its whole sentences are kept.
    outcome = await context.ask(
        "answer",
        case.id,
        messages,
        ReplyFormat(name=reply, schema=None, parse=free_text, may_be_cut=True),
        settings,
    )
    if isinstance(outcome, Failure):
        raise NodeFailure.of(outcome)
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
        later_tokens=2 * settings.max_tokens * settings.corrections,
    )


def _asked(case: Case, state: RetrievedAnswerInput) -> dict[str, str]:
    question = case.question.strip() or state.get("patient_question", "")
    return {
        "narrative": one_line(case.narrative) or _NOTHING,
        "question": one_line(question) or _NOTHING,
    }


def _because(prompt: FittedSentences, rejected: Sequence[Attempt]) -> str:
    because = f"attempt {len(rejected) + 1} on {len(prompt.shown)} sentences, the best first"
    if prompt.dropped:
        because += f"; {prompt.dropped} more do not fit the context window"
    if rejected:
        because += f"; after the fault was quoted: {'; '.join(rejected[-1]['faults'])}"
    return because


async def generate_cited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for whole sentences with `|id|` behind each."""
    return await _answer_from_retrieved(
        "generate_cited_answer", CITED_ANSWER_REPLY, _numbered, state, runtime.context
    )


def _numbered(id_: str, text: str) -> str:
    return f"{id_}: '{text}'"


async def generate_uncited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for plain sentences."""
    return await _answer_from_retrieved(
        "generate_uncited_answer", ANSWER_REPLY, _plain, state, runtime.context
    )


def _plain(id_: str, text: str) -> str:
    return f"'{text}'"


def _made_up(call: DryCall) -> str:
    rules = call.recipe.section(AnswerRules)
    ids = numbered_ids([message.text for message in call.messages])
    cited = itertools.cycle(ids)
    return "\n".join(
        f"{sentence} |{', '.join(itertools.islice(cited, _CITED_SENTENCES))}|" if ids else sentence
        for sentence in made_up_sentences(rules.max_words, rules.max_sentences, rules.min_sentences)
    )


def _spec(
    run: Callable[[RetrievedAnswerInput, Runtime[Context]], Awaitable[RetrievedAnswerUpdate]],
    name: str,
    reply: str,
    made_up: Callable[[DryCall], str],
    is_off: Callable[[Recipe], bool],
) -> NodeSpec:
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


GENERATE_CITED_ANSWER = _spec(
    generate_cited_answer, "generate_cited_answer", CITED_ANSWER_REPLY, _made_up, attributes
)

GENERATE_UNCITED_ANSWER = _spec(
    generate_uncited_answer,
    "generate_uncited_answer",
    ANSWER_REPLY,
    made_up_answer,
    lambda recipe: not attributes(recipe),
)
