"""The verdict in plain language, with citations of the passages that were read.

The paper leaves explanations for later; this is asked for only where a recipe wants it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Verdict
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from nodes.core.fitting import fit_prompt
from nodes.core.records import Decision, decision
from nodes.core.wording import one_line
from nodes.reading.cited_text import check_citations
from nodes.reading.literature_records import EvidencePassage
from serving.ask import Ask, Failure
from serving.messages import Message
from serving.reply import ReplyFormat, free_text

EXPLANATION_REPLY = "explanation"
"""Name of the reply's format."""

_FREE_TEXT = ReplyFormat(name=EXPLANATION_REPLY, schema=None, parse=free_text, may_be_cut=True)
_VERDICTS: Mapping[Verdict, str] = {
    "yes": "yes",
    "no": "no",
    "unknown": "unknown: the passages do not settle it",
}
_READINGS = {"supports": "speaks for yes", "neutral": "does not tell", "refutes": "speaks for no"}


class ExplainVerdictInput(TypedDict):
    """What the node reads."""

    case_id: str
    patient_question: NotRequired[str]
    verdict: Verdict
    evidence_passages: list[EvidencePassage]


class ExplainVerdictUpdate(TypedDict):
    """What the node owns."""

    explanation: str
    decisions: list[Decision]


async def explain_verdict(state: ExplainVerdictInput, runtime: Runtime[Context]) -> ExplainVerdictUpdate:
    """Ask the `answer` model; citations of passages that it was not shown are taken out and counted."""
    context = runtime.context
    settings = context.settings.verdict
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    read = {one["id"]: one for one in state["evidence_passages"] if one["reading"] is not None}

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        turns = context.prompts["explain_verdict"].render(
            {
                "question": one_line(question),
                "verdict": _VERDICTS[state["verdict"]],
                "passages": "\n".join(_line(read[id_]) for id_ in ids),
                "max_words": str(settings.max_words),
            }
        )
        return tuple(Message(role, text) for role, text in turns), list(ids)

    prompt = await fit_prompt(
        context.client, "answer", list(read), render, reply_tokens=settings.max_tokens, later_tokens=0
    )
    (outcome,) = await context.client.ask(
        Ask(
            role="answer",
            case_id=case.id,
            messages=prompt.messages,
            reply=_FREE_TEXT,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=context.settings.seed,
        )
    )
    if isinstance(outcome, Failure):
        raise NodeFailure.of(outcome)
    checked = check_citations(outcome.value, prompt.kept)
    return {
        "explanation": checked.text,
        "decisions": decision(
            "explain_verdict",
            f"explained from {len(prompt.kept)} passages, {len(checked.cited)} of them cited",
            {
                "shown": prompt.kept,
                "dropped_passages": prompt.dropped,
                "cited": checked.cited,
                "unknown_citations": len(checked.unknown),
                "words": len(checked.text.split()),
            },
            outcome.calls,
            flags=[
                *(["dropped_passages"] if prompt.dropped else []),
                *(["unknown_citations"] if checked.unknown else []),
                *([] if checked.cited else ["uncited_explanation"]),
            ],
        ),
    }


def _line(passage: EvidencePassage) -> str:
    """A passage on one line, so that no text can look like a further numbered passage."""
    origin = ", ".join(part for part in (one_line(passage["source"]), str(passage["year"] or "")) if part)
    said = _READINGS[passage["reading"] or "neutral"]
    return f"[{passage['id']}] ({origin or 'source unknown'}; {said}) {one_line(passage['text'])}"
