"""An answer from retrieved sentences without numbers, attributed afterwards (heiDS 2025, section 2.4)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from nodes.answer.answer_rules import made_up_answer
from nodes.answer.generate_answer import ANSWER_REPLY
from nodes.citing.answer_from_retrieved import (
    RetrievedAnswerInput,
    RetrievedAnswerUpdate,
    answer_from_retrieved,
    retrieved_answer_spec,
)
from nodes.citing.citations import attributes
from nodes.core.context import Context


async def generate_uncited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for plain sentences."""
    return await answer_from_retrieved(
        "generate_uncited_answer", ANSWER_REPLY, _plain, state, runtime.context
    )


def _plain(id_: str, text: str) -> str:
    return f"'{text}'"


GENERATE_UNCITED_ANSWER = retrieved_answer_spec(
    generate_uncited_answer,
    ANSWER_REPLY,
    made_up_answer,
    lambda recipe: not attributes(recipe),
)
