"""The labelling conversation of a case, rebuilt the same for its votes and for their reflections."""

from __future__ import annotations

from collections.abc import Sequence

from cases.records import Case
from nodes.context import Context
from nodes.wording import case_variables, label_map
from serving.journal import Message


def labelling_prompt(
    context: Context, case: Case, question: str, demonstration_ids: Sequence[str]
) -> tuple[Message, ...]:
    """Instructions, demonstrations in the given order, the case."""
    assert context.demonstrations is not None or not demonstration_ids
    shown = [context.demonstrations.case(case_id) for case_id in demonstration_ids if context.demonstrations]
    turns = context.prompts["label_evidence"].render(
        case_variables(case, question), [_demonstration(one) for one in shown]
    )
    return tuple(Message(role, text) for role, text in turns)


def _demonstration(case: Case) -> dict[str, str]:
    labels = case.gold.labels or {}
    essential = {id_ for id_, label in labels.items() if label == "essential"}
    return {
        **case_variables(case, case.question),
        "labels": label_map(case.sentence_ids, essential),
    }
