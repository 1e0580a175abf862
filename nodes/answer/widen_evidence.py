"""If no sentence is evidence by the recipe's setting, use the next best setting, with a flag."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from nodes.core.context import Context
from nodes.core.facts import plain, whole
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision


class WidenEvidenceInput(TypedDict):
    vote_counts: dict[str, int]
    ranker_scores: NotRequired[dict[str, float]]


class WidenEvidenceUpdate(TypedDict):
    answer_evidence: list[str]
    decisions: list[Decision]


def next_best(counts: dict[str, int]) -> list[str]:
    """All sentences with the highest count, or none if no vote named any."""
    best = max(counts.values(), default=0)
    return [id_ for id_, count in counts.items() if count == best and best > 0]


def best_ranked(scores: dict[str, float]) -> list[str]:
    """The sentence that a ranker scores best, the first of equals."""
    return [max(scores, key=lambda id_: scores[id_])] if scores else []


async def widen_evidence(state: WidenEvidenceInput, runtime: Runtime[Context]) -> WidenEvidenceUpdate:
    """Fall back to the sentences with most votes, then to the best ranked, then to the whole note."""
    chosen = next_best(state["vote_counts"])
    because = f"no sentence met the setting; the {len(chosen)} with most votes are used"
    if not chosen:
        chosen = best_ranked(state.get("ranker_scores", {}))
        because = (
            "no vote named any sentence; the one that the ranker scores best is used"
            if chosen
            else "no vote named any sentence; the answer is built on the whole note"
        )
    return {
        "answer_evidence": chosen,
        "decisions": decision("widen_evidence", because, {"chosen": chosen}, flags=["widened_evidence"]),
    }


WIDEN_EVIDENCE = NodeSpec(
    run=widen_evidence,
    results={"answer_evidence": whole},
    facts=plain("chosen"),
    flags={"widened_evidence": "no sentence met the setting, so the next best were used"},
)
