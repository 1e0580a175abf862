"""An answer from retrieved sentences that are not numbered, to be attributed afterwards (heiDS 2025)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from nodes.answer.answer_conversation import (
    RetrievedAnswerInput,
    RetrievedAnswerUpdate,
    answer_from_retrieved,
)
from nodes.answer.generate_answer import ANSWER_REPLY
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
