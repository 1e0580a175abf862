"""Small records that travel in the state: builtins only, texts by reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, get_args

from retrieval.pools.neighbours import Neighbour
from serving.protocol.request import CallRecord

AnswerEvidence = Literal["threshold", "high_recall", "low_recall"]
ReplyFormName = Literal["labels", "ids", "pointwise", "auto"]
AlignedAnswer = Literal["generated", "clinician"]
Tier = Literal["similarity", "primary", "secondary", "fill"]


class Shown(TypedDict):
    """A chosen demonstration: which, how far, and by which rule it was chosen."""

    case_id: str
    distance: float
    intent: str | None
    source: str
    tier: Tier


class IntentChoice(TypedDict):
    """Intent of a question; `primary` is None if the model named no known intent."""

    primary: str | None
    secondary: str | None
    risk_level: str


class Vote(TypedDict):
    """One labelling of the whole note.

    `essential` lists sentence ids in note order, `confidence` gives P(essential) by sentence id if the recipe
    requests it and the model reports it. `log_odds` are the scores of a model asked about each sentence
    separately, higher where it is more likely to be essential; a sentence whose reply is missing has none.
    """

    vote: int
    essential: list[str]
    confidence: NotRequired[dict[str, float]]
    log_odds: NotRequired[dict[str, float]]


class AnswerLine(TypedDict):
    """One sentence of an answer; `id` is unique within the answer."""

    id: str
    text: str


class Retrieved(TypedDict):
    """A sentence of the note that was found for a query."""

    id: str
    score: float


class Attribution(TypedDict):
    """How well a sentence of an answer matches one of the note, part by part, each 0 to 1."""

    id: str
    lexical: float
    fuzzy: float
    semantic: float


class ReviewRecord(TypedDict):
    """A person's review that a case went on with; `changed` lists the ids that votes had otherwise."""

    reviewer: str
    reviewed_at: str
    changed: list[str]


class Decision(TypedDict):
    """A node's decision and its reason: `because` is for people, `facts` for programs."""

    node: str
    because: str
    facts: dict[str, Any]
    calls: list[dict[str, Any]]
    flags: NotRequired[list[str]]


def same_evidence(ids: Sequence[str]) -> dict[AnswerEvidence, list[str]]:
    """The same sentences for every evidence setting, where votes do not tell them apart."""
    return {setting: list(ids) for setting in get_args(AnswerEvidence)}


def shown(neighbour: Neighbour, tier: Tier) -> Shown:
    """A neighbour in the form kept in the state."""
    return Shown(
        case_id=neighbour.case_id,
        distance=neighbour.distance,
        intent=neighbour.intent,
        source=neighbour.source,
        tier=tier,
    )


def raised(**flags: object) -> list[str]:
    """The flags whose condition holds, in this order."""
    return [name for name, holds in flags.items() if holds]


def decision(
    node: str,
    because: str,
    facts: Mapping[str, Any],
    calls: Sequence[CallRecord] = (),
    flags: Sequence[str] = (),
) -> list[Decision]:
    """A decision as an update of the state's `decisions`."""
    made = Decision(node=node, because=because, facts=dict(facts), calls=[call.as_line() for call in calls])
    if flags:
        made["flags"] = list(flags)
    return [made]
