"""The labelling conversation of a case, rebuilt the same for its votes and for their reflections."""

from __future__ import annotations

from collections.abc import Sequence

from cases.records import Case
from nodes.core.context import Context
from nodes.core.wording import case_variables
from nodes.evidence.reply_form import REPLY_FORMS, ReplyForm
from serving.messages import Message


def labelling_prompt(
    context: Context, case: Case, question: str, demonstration_ids: Sequence[str]
) -> tuple[Message, ...]:
    """Instructions, demonstrations in the given order, the case."""
    assert context.demonstrations is not None or not demonstration_ids
    shown = [context.demonstrations.case(case_id) for case_id in demonstration_ids if context.demonstrations]
    form = REPLY_FORMS[context.settings.evidence.reply]
    turns = context.prompts["label_evidence"].render(
        {**case_variables(case, question), "reply_form": form.instruction},
        [_demonstration(one, form) for one in shown],
    )
    return tuple(Message(role, text) for role, text in turns)


def _demonstration(case: Case, form: ReplyForm) -> dict[str, str]:
    labels = case.gold.labels or {}
    essential = {id_ for id_, label in labels.items() if label == "essential"}
    return {
        **case_variables(case, case.question),
        "labels": form.write(case.sentence_ids, essential),
    }
