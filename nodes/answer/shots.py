"""Answered questions of the same type that a prompt shows (Verma et al. 2025, section 3.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from cases.biomedical import QuestionType
from cases.records import Case
from nodes.core.context import Tool
from nodes.core.wording import one_line

ANSWERED_QUESTIONS: Tool[Mapping[QuestionType, Sequence[Case]]] = Tool("answered_questions")
"""Answered questions that prompts may show, by type."""


def can_be_shown(case: Case) -> bool:
    """Whether a question has all that a shot shows: a type, snippets, an ideal answer and an exact one.

    A summary question has no exact answer and needs none.
    """
    asked, gold = case.biomedical, case.gold
    if asked is None or asked.type is None or not asked.snippets or not gold.ideal_answers:
        return False
    return asked.type == "summary" or bool(gold.exact_answer)


def choose_shots(
    shots: Iterable[Case], case: Case, count: int, seed: int, excluded: Collection[str]
) -> list[Case]:
    """Draw `count` of the shots for a question, or all of them where they are fewer.

    A draw depends on the seed and on ids alone, not on the order of a file, so that it is the same again.

    Args:
        shots: Of the question's type.
        case: The question; itself, and the same words under another id, are never drawn.
        count: How many.
        seed: Another one draws others.
        excluded: Ids that are never drawn.
    """
    own = _words(case)
    fitting = [one for one in shots if one.id != case.id and one.id not in excluded and _words(one) != own]
    return _drawn(fitting, f"{seed}\n{case.id}\n")[:count]


def _drawn(cases: Sequence[Case], salt: str) -> list[Case]:
    return sorted(cases, key=lambda one: hashlib.sha256(f"{salt}{one.id}".encode()).digest())


def _words(case: Case) -> str:
    return one_line(case.question).casefold()
