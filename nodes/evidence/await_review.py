"""A person labels the sentences of a case that is too uncertain, or whose answer is not supported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, Field

from cases.records import Label
from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import TEXT, id_list, plain, withheld
from nodes.core.failure import NodeFailure
from nodes.core.node import NodeSpec
from nodes.core.records import AnswerEvidence, Decision, ReviewRecord, decision, same_evidence
from nodes.evidence.disagreement import contested, differs_too_much, disagreement, is_too_uncertain
from nodes.evidence.settings import ReviewSettings
from nodes.verification.support import AnswerStatus, Finding


class ReviewedLabels(BaseModel):
    """Value that resumes the graph.

    Attributes:
        reviewer: Who labelled.
        reviewed_at: When, in ISO 8601.
        labels: Of every sentence of the note.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reviewer: str = Field(min_length=1)
    reviewed_at: str
    labels: dict[str, Label]


class AwaitReviewInput(TypedDict):
    case_id: str
    vote_counts: dict[str, int]
    usable_votes: int
    case_confidence: NotRequired[float]
    evidence: dict[AnswerEvidence, list[str]]
    answer_status: NotRequired[AnswerStatus]
    answer_support: NotRequired[list[Finding]]


class AwaitReviewUpdate(TypedDict):
    """The reviewer, and the reviewer's evidence in every setting."""

    review: ReviewRecord
    evidence: dict[AnswerEvidence, list[str]]
    decisions: list[Decision]


async def await_review(state: AwaitReviewInput, runtime: Runtime[Context]) -> AwaitReviewUpdate:
    """Wait for a person, then take the person's labels.

    Nothing is asked of a model here: LangGraph runs the node again from its start when it is resumed.

    Raises:
        NodeFailure: The labels are not those of this case's sentences.
    """
    settings = runtime.context.section(ReviewSettings)
    counts, usable = state["vote_counts"], state["usable_votes"]
    confidence = state.get("case_confidence")
    open_ids = contested(counts, usable)
    facts: dict[str, Any] = {
        "disagreement": round(disagreement(counts, usable), 4),
        "limit": settings.disagreement,
        "contested": open_ids,
        "counts": counts,
        "usable_votes": usable,
    }
    reasons = []
    if differs_too_much(settings, counts, usable):
        sentences = f"{len(open_ids)} of {plural(len(counts), 'sentence')}"
        reasons.append(f"{plural(usable, 'vote')} differ on {sentences} (limit {settings.disagreement})")
    if is_too_uncertain(settings, confidence):
        reasons.append(f"the confidence is {confidence} and has to be {settings.confidence}")
    if settings.unsupported and state.get("answer_status") == "unsupported":
        findings = state["answer_support"]
        facts["unsupported"] = [one["id"] for one in findings if one["support"] != "supported"]
        counted = f"{len(facts['unsupported'])} of {plural(len(findings), 'sentence')}"
        reasons.append(f"{counted} of the answer are not supported")
    if settings.confidence is not None:
        facts |= {"case_confidence": confidence, "least_confidence": settings.confidence}
    differ = " and ".join(reasons)
    # A decision, so that traces and Studio show the wait as they show everything else.
    (wait,) = decision("await_review", f"waits for a person: {differ}", facts, flags=["waits_for_review"])
    given: ReviewedLabels = interrupt(dict(wait), response_schema=ReviewedLabels)
    sentence_ids = runtime.context.cases[state["case_id"]].sentence_ids
    _demand_all(given.labels, sentence_ids)
    before = state["evidence"]["threshold"]
    essential = [id_ for id_ in sentence_ids if given.labels[id_] == "essential"]
    changed = [id_ for id_ in sentence_ids if (id_ in essential) != (id_ in before)]
    because = (
        f"{given.reviewer} labelled {len(essential)} of {plural(len(sentence_ids), 'sentence')} essential"
        f" and changed {len(changed)}, as {differ}"
    )
    told = facts | {
        "reviewer": given.reviewer,
        "reviewed_at": given.reviewed_at,
        "before": before,
        "essential": essential,
        "changed": changed,
    }
    return {
        "review": ReviewRecord(reviewer=given.reviewer, reviewed_at=given.reviewed_at, changed=changed),
        "evidence": same_evidence(essential),
        "decisions": decision("await_review", because, told, flags=["reviewed"]),
    }


def _demand_all(labels: Mapping[str, Label], sentence_ids: Sequence[str]) -> None:
    unknown = [id_ for id_ in labels if id_ not in sentence_ids]
    missing = [id_ for id_ in sentence_ids if id_ not in labels]
    if unknown:
        raise NodeFailure("invalid_input", f"the review labels sentence {unknown[0]!r}, which is not there")
    if missing:
        raise NodeFailure("invalid_input", f"the review leaves sentence {missing[0]!r} without a label")


AWAIT_REVIEW = NodeSpec(
    run=await_review,
    sections=(ReviewSettings,),
    results={"review": withheld},
    facts={
        "contested": id_list("votes differ on"),
        "changed": id_list("changed by the reviewer"),
        "reviewer": TEXT,
        **plain("disagreement", "limit", "counts", "usable_votes", "reviewed_at", "before", "essential"),
        **plain("case_confidence", "least_confidence"),
        "unsupported": id_list("answer sentences without support"),
    },
    flags={
        "waits_for_review": "its labels are too uncertain, or its answer is unsupported; a person is to look",
        "reviewed": "a person labelled the sentences",
    },
    is_off=lambda recipe: not recipe.waits_for_people,
)
