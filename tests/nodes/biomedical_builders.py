"""Invented questions in the manner of BioASQ, and contexts in which they are answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from cases.biomedical import BiomedicalQuestion, ExactAnswer, QuestionType, Snippet
from cases.records import Case, Gold
from graph.document_resources import group_by_type
from nodes.answer.question_prompt import ANSWERED_QUESTIONS
from nodes.core.context import Context
from nodes.retrieval.document_records import ChosenSnippet
from tests.nodes.builders import Answering, Bench, script

IDEAL = "Yes. Quaggamab lowers the count of invented cells."
GOLD: dict[QuestionType, ExactAnswer | None] = {
    "yesno": "yes",
    "factoid": (("quaggamab", "QGM"),),
    "list": (("zebrine", "ZBR"), ("okapine",), ("gnuxin",)),
    "summary": None,
}


def snippet(text: str, document: str = "d1") -> Snippet:
    return Snippet(document, text, "abstract", 0, len(text))


def asking(
    case_id: str = "q",
    type_: QuestionType | None = "yesno",
    *,
    question: str = "Does quaggamab lower the count?",
    snippets: Sequence[Snippet] = (snippet("Quaggamab lowered the count."),),
    gold: Gold | None = None,
    documents: Sequence[str] = (),
) -> Case:
    asked = BiomedicalQuestion(type_, tuple(documents), tuple(snippets))
    return Case(case_id, "", question, (), biomedical=asked, gold=gold or Gold())


def answered(case_id: str, type_: QuestionType = "yesno", **fields: Any) -> Case:
    """A question that can be a shot."""
    gold = Gold(exact_answer=GOLD[type_], ideal_answers=(f"Ideal of {case_id}.", "Another."))
    fields = {"question": f"What of {case_id}?", "snippets": (snippet(f"Passage of {case_id}."),)} | fields
    return asking(case_id, type_, gold=gold, **fields)


def chosen(*texts: str) -> list[ChosenSnippet]:
    return [
        ChosenSnippet(document=f"d{number}", section="abstract", begin=None, end=None, text=text)
        for number, text in enumerate(texts, 1)
    ]


def says(answer: str | Sequence[str]) -> str:
    return json.dumps({"answer": answer})


YES = says("yes")


def question_context(
    bench: Bench,
    *cases: Case,
    exactly: Answering = YES,
    ideally: Answering = IDEAL,
    shots: Iterable[Case] = (),
    **values: Any,
) -> Context:
    """In phase B and without shots, where `values` of the recipe do not say otherwise."""
    recipe: dict[str, Any] = {"documents": {"phase": "b"}, "exact": {"shots": 0}} | values
    return bench.context(
        *(cases or [asking()]),
        system="bioasq",
        replies=script(label=exactly, answer=ideally),
        tools={ANSWERED_QUESTIONS: group_by_type(shots, ())},
        **recipe,
    )
