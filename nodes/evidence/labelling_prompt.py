"""The labelling conversation of a case, rebuilt the same for its votes and for their reflections."""

from __future__ import annotations

from collections.abc import Sequence

from cases.records import Case
from nodes.core.context import Context
from nodes.core.wording import case_variables
from nodes.evidence.reply_forms import REPLY_FORMS, ReplyForm
from nodes.evidence.settings import VoteSettings
from nodes.retrieval.demonstration_search import POOL
from serving.protocol.messages import Message


def labelling_prompt(
    context: Context, case: Case, question: str, demonstration_ids: Sequence[str]
) -> tuple[Message, ...]:
    """Instructions, demonstrations in the given order, the case."""
    shown = [context.tool(POOL).case(case_id) for case_id in demonstration_ids]
    form = REPLY_FORMS[context.section(VoteSettings).reply]
    return context.messages(
        "label_evidence",
        {**case_variables(case, question), "reply_form": form.instruction},
        [_demonstration(one, form) for one in shown],
    )


def _demonstration(case: Case, form: ReplyForm) -> dict[str, str]:
    labels = case.gold.labels or {}
    essential = {id_ for id_, label in labels.items() if label == "essential"}
    return {
        **case_variables(case, case.question),
        "labels": form.write(case.sentence_ids, essential),
    }
