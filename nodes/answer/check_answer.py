"""Does the answer keep its rules? One that does not goes back once, then is repaired and flagged."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.answer.answer_rules import AnswerRules, find_faults, shorten, strip_citations
from nodes.core.context import Context
from nodes.core.facts import plain, withheld
from nodes.core.failure import NodeFailure
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.core.written_text import Attempt, rule_breaks


class CheckAnswerInput(TypedDict):
    draft_answer: str
    rejected_answers: NotRequired[list[Attempt]]


class CheckAnswerUpdate(TypedDict):
    """`answer` is set once the answer is accepted."""

    answer: NotRequired[str]
    rejected_answers: NotRequired[list[Attempt]]
    decisions: list[Decision]


async def check_answer(state: CheckAnswerInput, runtime: Runtime[Context]) -> CheckAnswerUpdate:
    """Accept, send back with the faults quoted, or repair."""
    rules = runtime.context.section(AnswerRules)
    draft = state["draft_answer"]
    text = strip_citations(draft)
    faults = find_faults(text, rules)
    rejected = rule_breaks(state.get("rejected_answers", []))
    stripped = text != " ".join(draft.split())
    facts = {"faults": faults, "words": len(text.split()), "citations_stripped": stripped}
    if not faults:
        because = "the answer keeps its rules" + (" once its citations are stripped" if stripped else "")
        return {
            "answer": text,
            "decisions": decision("check_answer", because, {**facts, "verdict": "accepted"}),
        }
    quoted = "; ".join(faults)
    if len(rejected) < rules.corrections:
        return {
            "rejected_answers": [Attempt(text=draft, faults=faults)],
            "decisions": decision("check_answer", f"sent back: {quoted}", {**facts, "verdict": "sent_back"}),
        }
    repaired = shorten(text, rules)
    if not repaired:
        raise NodeFailure("invalid_output", "the answer is empty once its citations are stripped")
    return {
        "answer": repaired,
        "decisions": decision(
            "check_answer",
            f"accepted with a flag after {plural(len(rejected), 'correction')}: {quoted}",
            {**facts, "verdict": "repaired", "words_after": len(repaired.split())},
            flags=["answer_breaks_rules"],
        ),
    }


BREAKS_RULES = {"answer_breaks_rules": "the answer broke its rules and was shortened"}
"""The flag of a node that shortens an answer."""

CHECK_ANSWER = NodeSpec(
    run=check_answer,
    sections=(AnswerRules,),
    results={"answer": withheld},
    facts=plain("faults", "words", "citations_stripped", "verdict", "words_after"),
    flags=BREAKS_RULES,
    kind="EVALUATOR",
)
