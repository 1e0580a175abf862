"""What the systems that write answers share: verified sentences, and cases that end as not stated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar, Literal

from langgraph.runtime import Runtime

from graph.resource import Opened, Resource, ResourceRequest
from nodes.core.context import Context
from nodes.core.recipe import Recipe
from nodes.core.records import AlignedAnswer, AnswerLine
from nodes.core.state import CaseState
from nodes.question.judge_answerability import Answerable
from nodes.verification.support import AnswerStatus, Finding
from nodes.verification.verify_answer import VERIFIER, VerificationSettings, verifies
from ranking.rankers.load import load_ranker

Verified = Literal["sent_back", "not_stated", "unsupported", "answered"]


class VerifiedState(CaseState, total=False):
    """The end of a case whose answer is verified."""

    answer: str
    """Set once an answer is accepted; empty while one that is not supported is written again."""
    answer_sentences: list[AnswerLine]
    """Of the aligned answer."""
    alignment: dict[str, list[str]]
    """Ids of the note sentences that support each answer sentence, by its id."""
    aligned_answer: AlignedAnswer
    answerable: Answerable
    """Whether the record answers the question, where the recipe asks before an answer is written."""
    answering_sentences: list[str]
    answer_status: AnswerStatus
    """Set once the answer stays as it is."""
    answer_support: list[Finding]
    """Of each sentence of the answer, in its order."""
    nearest_sentences: list[str]
    """Ids of a case that ends as not stated, in note order."""


def verified(state: VerifiedState) -> Verified:
    """How an answer left `verify_answer`; one that was sent back leaves none."""
    status = state.get("answer_status")
    if status is None or not (state.get("answer") or status == "not_stated"):
        return "sent_back"
    return status


async def after_answer(
    state: VerifiedState, runtime: Runtime[Context]
) -> Literal["verify_answer", "__end__"]:
    """An accepted answer is verified, by recipe."""
    return "verify_answer" if verifies(runtime.context.settings) else "__end__"


class AnswerVerifier(Resource):
    """A ranker that adds its scores to the verification of answers."""

    compared: ClassVar[Mapping[str, tuple[str, ...]]] = {"verifier": ("name", "identity")}

    def reads(self, recipe: Recipe) -> object:
        return recipe.section(VerificationSettings).ranker if verifies(recipe) else None

    async def open(self, request: ResourceRequest) -> Opened:
        name = request.recipe.section(VerificationSettings).ranker
        assert name is not None
        ranker = await asyncio.to_thread(load_ranker, name)
        return Opened({VERIFIER.name: ranker}, {"verifier": {"name": name, "identity": ranker.identity}})
