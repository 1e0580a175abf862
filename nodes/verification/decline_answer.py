"""The note does not say: the product's own sentence in place of an answer, with the nearest sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.answer.answer_rules import split_sentences
from nodes.core.context import Context
from nodes.core.facts import id_list, whole, withheld
from nodes.core.node import NodeSpec
from nodes.core.recipe import Recipe
from nodes.core.records import AlignedAnswer, AnswerLine, Decision, Retrieved, decision
from nodes.evidence.settings import EvidenceSettings
from nodes.question.judge_answerability import Answerable, judges_answerability
from nodes.verification.support import AnswerStatus, Finding
from nodes.verification.text_checks import nearest
from nodes.verification.verify_answer import verifies

NOT_STATED = "The note does not say."
NOT_IN_DOCUMENTS = "The documents do not say."
"""Answers that no model wrote."""

_NEAREST = 3

_SOURCE = r"(?:note|record|chart|documentation|(?:given|provided) sentences|sentences)"
_TOLD = (
    r"(?:stat|specif|mention|document|record|report|provid|describ|indicat"
    r"|say|said|giv|contain|includ|answer)"
)
_SAYS_NOT_STATED = re.compile(
    rf"\b(?:not|no|never|nor|cannot)\b.*\b{_TOLD}\w*\b.*\b{_SOURCE}\b"
    rf"|\b{_SOURCE}\b.*\b(?:not|no|never|nor)\b.*\b{_TOLD}\w*\b",
    re.IGNORECASE,
)
"""`The dose is not specified in the note`, `the note does not say`: of the note, and not of the patient."""


def says_not_stated(answer: str) -> bool:
    """Whether every sentence of an answer says that the note does not tell."""
    sentences = split_sentences(answer)
    return bool(sentences) and all(_SAYS_NOT_STATED.search(one) for one in sentences)


class DeclineAnswerInput(TypedDict):
    """The answer that was not found, and all that ranks the sentences of the note."""

    case_id: str
    patient_question: NotRequired[str]
    answer: NotRequired[str]
    answerable: NotRequired[Answerable]
    answer_evidence: NotRequired[list[str]]
    label_confidence: NotRequired[dict[str, float | None]]
    ranker_scores: NotRequired[dict[str, float]]
    retrieved: NotRequired[list[Retrieved]]
    aligned_answer: NotRequired[AlignedAnswer]


class DeclineAnswerUpdate(TypedDict):
    """What the node owns. `nearest_sentences` are ids of the note, in note order."""

    answer: str
    answer_status: AnswerStatus
    answer_support: list[Finding]
    nearest_sentences: list[str]
    answer_sentences: NotRequired[list[AnswerLine]]
    alignment: NotRequired[dict[str, list[str]]]
    decisions: list[Decision]


async def decline_answer(state: DeclineAnswerInput, runtime: Runtime[Context]) -> DeclineAnswerUpdate:
    """End the case as not stated."""
    case = runtime.context.cases[state["case_id"]]
    scores = _scores(state)
    best = sorted(scores, key=lambda id_: -scores[id_])[:_NEAREST]
    if not best:
        best = nearest(state.get("patient_question", case.question), case.sentences, _NEAREST)
    ids = [id_ for id_ in case.sentence_ids if id_ in best]
    if state.get("answerable") == "no":
        because = "the note does not answer the question"
    elif state.get("answer_evidence") == [] and chooses_none(runtime.context.settings):
        because = "no sentence of the note is essential by the rule"
    elif says_not_stated(state.get("answer", "")):
        because = "the model wrote that the note does not say"
    else:
        because = "no sentence of the answer is supported"
    update = DeclineAnswerUpdate(
        answer=NOT_STATED if case.biomedical is None else NOT_IN_DOCUMENTS,
        answer_status="not_stated",
        answer_support=[],
        nearest_sentences=ids,
        decisions=decision("decline_answer", because, {"nearest": ids}, flags=["not_stated"]),
    )
    if state.get("aligned_answer") == "generated":
        update["answer_sentences"], update["alignment"] = [], {}
    return update


def _scores(state: DeclineAnswerInput) -> Mapping[str, float]:
    """What the system knows of sentences: the model's probabilities, else a ranker's scores, else places."""
    confidence = {id_: one for id_, one in (state.get("label_confidence") or {}).items() if one is not None}
    places = {one["id"]: -float(place) for place, one in enumerate(state.get("retrieved", ()))}
    return confidence or state.get("ranker_scores") or places


def chooses_none(recipe: Recipe) -> bool:
    """Whether a calibrated rule may find that no sentence is essential, which ends the case."""
    evidence = recipe.find_section(EvidenceSettings)
    rule = evidence.rule if evidence is not None else None
    return recipe.answers and rule is not None and rule.least is not None


def declines(recipe: Recipe) -> bool:
    """Whether a case may end without an answer of a model."""
    return verifies(recipe) or judges_answerability(recipe) or chooses_none(recipe)


DECLINE_ANSWER = NodeSpec(
    run=decline_answer,
    results={"answer": withheld, "answer_status": whole, "nearest_sentences": whole},
    facts={"nearest": id_list("nearest sentences")},
    flags={"not_stated": "the note does not say; no answer was written, or none of it was supported"},
    is_off=lambda recipe: not declines(recipe),
)
