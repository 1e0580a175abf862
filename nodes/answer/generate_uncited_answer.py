"""An answer from retrieved sentences that are not numbered, to be attributed afterwards (heiDS 2025)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from nodes.answer.answer_conversation import (
    RETRIEVED_ANSWER_FACTS,
    RETRIEVED_ANSWER_FLAGS,
    RetrievedAnswerInput,
    RetrievedAnswerUpdate,
    answer_from_retrieved,
)
from nodes.answer.answer_rules import AnswerRules, all_faults, made_up_answer
from nodes.answer.citations import CitationSettings, attributes
from nodes.answer.generate_answer import ANSWER_REPLY
from nodes.core.context import Context
from nodes.core.dry_run import CorrectedReply
from nodes.core.facts import whole
from nodes.core.node import NodeSpec
from nodes.core.wording import CASE_VARIABLES
from prompts import Contract


async def generate_uncited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for plain sentences."""
    return await answer_from_retrieved(
        "generate_uncited_answer", ANSWER_REPLY, _plain, state, runtime.context
    )


def _plain(id_: str, text: str) -> str:
    return f"'{text}'"


GENERATE_UNCITED_ANSWER = NodeSpec(
    run=generate_uncited_answer,
    sections=(AnswerRules, CitationSettings),
    prompts=(
        Contract(
            name="generate_uncited_answer",
            required=CASE_VARIABLES,
            optional=frozenset({"max_words"}),
            correction=True,
        ),
    ),
    results={"answer_evidence": whole},
    facts=RETRIEVED_ANSWER_FACTS,
    flags=RETRIEVED_ANSWER_FLAGS,
    dry_replies={ANSWER_REPLY: made_up_answer},
    corrected=CorrectedReply(
        ANSWER_REPLY,
        "generate_uncited_answer",
        lambda recipe: recipe.section(AnswerRules),
        lambda recipe: all_faults(recipe.section(AnswerRules)),
    ),
    is_off=lambda recipe: not recipe.answers or not attributes(recipe),
)
