"""An answer that cites the retrieved sentences that it was shown (heiDS 2025, section 2.4)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from nodes.answer.answer_conversation import (
    RetrievedAnswerInput,
    RetrievedAnswerUpdate,
    answer_from_retrieved,
)
from nodes.core.context import Context
from serving.backends.scripted import CITED_ANSWER

CITED_ANSWER_REPLY = CITED_ANSWER
"""Name of the reply's format."""


async def generate_cited_answer(
    state: RetrievedAnswerInput, runtime: Runtime[Context]
) -> RetrievedAnswerUpdate:
    """Ask for whole sentences with `|id|` behind each."""
    return await answer_from_retrieved(
        "generate_cited_answer", CITED_ANSWER_REPLY, _numbered, state, runtime.context
    )


def _numbered(id_: str, text: str) -> str:
    return f"{id_}: '{text}'"
