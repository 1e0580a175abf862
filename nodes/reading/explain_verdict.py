"""The verdict in plain language, with citations of the passages that were read.

The paper leaves explanations for later; this is asked for only where a recipe wants it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Verdict
from cases.texts import plural
from nodes.core.context import Context
from nodes.core.dry_run import DryCall, made_up_sentences
from nodes.core.facts import plain, withheld
from nodes.core.fitting import fit_prompt
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.core.wording import one_line
from nodes.core.written_text import write_attempt
from nodes.reading.settings import VerdictSettings
from nodes.retrieval.document_records import EvidencePassage
from prompts import Contract
from serving.protocol.messages import Message

_BRACKETS = re.compile(r"[ \t]*\[\s*(\w+(?:\s*[,;]\s*\w+)*)\s*\]")
_BETWEEN = re.compile(r"\s*[,;]\s*")


class CitedText(NamedTuple):
    """A text whose citations all exist.

    Attributes:
        cited: Ids in the order of their first citation.
        unknown: Ids that were cited and never shown; they are taken out of the text.
    """

    text: str
    cited: list[str]
    unknown: list[str]


def check_citations(text: str, shown: Collection[str]) -> CitedText:
    """Take ids that were not shown out of `[1]` and `[1, 2]`; brackets with other words in them stay.

    Args:
        text: As a model wrote it.
        shown: Ids that may be cited; all are numbers.
    """
    cited: dict[str, None] = {}
    unknown: dict[str, None] = {}

    def checked(match: re.Match[str]) -> str:
        ids = _BETWEEN.split(match[1])
        if not all(id_.isdigit() for id_ in ids):
            return match[0]
        known = [id_ for id_ in ids if id_ in shown]
        cited.update(dict.fromkeys(known))
        unknown.update(dict.fromkeys(id_ for id_ in ids if id_ not in shown))
        return f" [{', '.join(known)}]" if known else ""

    return CitedText(_BRACKETS.sub(checked, text).strip(), list(cited), list(unknown))


EXPLANATION_REPLY = "explanation"
"""Name of the reply's format."""

_VERDICTS: Mapping[Verdict, str] = {
    "yes": "yes",
    "no": "no",
    "unknown": "unknown: the passages do not settle it",
}
_READINGS = {"supports": "speaks for yes", "neutral": "is neutral", "refutes": "speaks for no"}


class ExplainVerdictInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]
    verdict: Verdict
    evidence_passages: list[EvidencePassage]


class ExplainVerdictUpdate(TypedDict):
    explanation: str
    decisions: list[Decision]


async def explain_verdict(state: ExplainVerdictInput, runtime: Runtime[Context]) -> ExplainVerdictUpdate:
    """Ask the `answer` model; citations of passages that it was not shown are taken out and counted."""
    context = runtime.context
    settings = context.section(VerdictSettings)
    case = context.cases[state["case_id"]]
    question = state.get("patient_question", case.question)
    read = {one["id"]: one for one in state["evidence_passages"] if one["reading"] is not None}

    def render(ids: Sequence[str]) -> tuple[tuple[Message, ...], list[str]]:
        return context.messages(
            "explain_verdict",
            {
                "question": one_line(question),
                "verdict": _VERDICTS[state["verdict"]],
                "passages": "\n".join(_line(read[id_]) for id_ in ids),
                "max_words": str(settings.max_words),
            },
        ), list(ids)

    prompt = await fit_prompt(context.client, "answer", list(read), render, reply_tokens=settings.max_tokens)
    outcome = await write_attempt(
        context, case.id, "explain_verdict", prompt.messages, EXPLANATION_REPLY, settings, ()
    )
    checked = check_citations(outcome.value, prompt.kept)
    return {
        "explanation": checked.text,
        "decisions": decision(
            "explain_verdict",
            f"explained from {plural(len(prompt.kept), 'passage')}, {len(checked.cited)} of them cited",
            {
                "shown": prompt.kept,
                "dropped_passages": prompt.dropped,
                "cited": checked.cited,
                "unknown_citations": len(checked.unknown),
                "words": len(checked.text.split()),
            },
            outcome.calls,
            flags=raised(
                dropped_passages=prompt.dropped,
                unknown_citations=checked.unknown,
                uncited_explanation=not checked.cited,
            ),
        ),
    }


def _line(passage: EvidencePassage) -> str:
    """A passage on one line, so that no text can look like a further numbered passage."""
    origin = ", ".join(part for part in (one_line(passage["source"]), str(passage["year"] or "")) if part)
    said = _READINGS[passage["reading"] or "neutral"]
    return f"[{passage['id']}] ({origin or 'source unknown'}; {said}) {one_line(passage['text'])}"


def _made_up(call: DryCall) -> str:
    return " ".join(made_up_sentences(call.recipe.section(VerdictSettings).max_words))


EXPLAIN_VERDICT = NodeSpec(
    run=explain_verdict,
    sections=(VerdictSettings,),
    prompts=(
        Contract(
            name="explain_verdict",
            required=frozenset({"question", "verdict", "passages"}),
            optional=frozenset({"max_words"}),
        ),
    ),
    results={"explanation": withheld},
    facts=plain("shown", "dropped_passages", "cited", "unknown_citations", "words"),
    flags={
        "dropped_passages": "the explanation was written without some passages, as the prompt was too long",
        "unknown_citations": "the reply cited texts that were not shown; those citations were removed",
        "uncited_explanation": "the explanation cites no passage",
    },
    dry_replies={EXPLANATION_REPLY: _made_up},
    is_off=lambda recipe: not recipe.section(VerdictSettings).explain,
)
