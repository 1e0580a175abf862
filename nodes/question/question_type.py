"""What kind of answer a question asks for."""

from __future__ import annotations

from typing import get_args

from cases.biomedical import QuestionType
from cases.records import Case
from nodes.core.failure import NodeFailure

QUESTION_TYPES: tuple[QuestionType, ...] = get_args(QuestionType)


def type_of(case: Case) -> QuestionType | None:
    """The type, None where the case gives none."""
    return case.biomedical.type if case.biomedical else None


def demand_type(case: Case) -> QuestionType:
    """The type of a question that is to be answered.

    Raises:
        NodeFailure: The case gives none, so the form of its answer is unknown.
    """
    found = type_of(case)
    if found is None:
        raise NodeFailure(
            "invalid_input", f"the question has no type; give it one of {', '.join(QUESTION_TYPES)}"
        )
    return found
