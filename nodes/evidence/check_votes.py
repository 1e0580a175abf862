"""Whether further votes could still change a label; otherwise the rest of the R votes is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import VOTE_COUNTS, id_list, plain
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, Vote, decision
from nodes.evidence.aggregate_votes import count_votes, effective_threshold
from nodes.evidence.settings import EvidenceSettings


class CheckVotesInput(TypedDict):
    """Reflected votes are absent without reflection."""

    case_id: str
    votes: list[Vote]
    reflected_votes: NotRequired[list[Vote]]
    asked_votes: int
    ranker_vote: NotRequired[Vote]


class CheckVotesUpdate(TypedDict):
    """Number of votes to request next, 0 once all labels are settled."""

    more_votes: int
    decisions: list[Decision]


def undecided(counts: Mapping[str, int], threshold: int, remaining: int) -> list[str]:
    """Ids whose label the remaining votes could still turn either way, in note order."""
    return [id_ for id_, count in counts.items() if count < threshold <= count + remaining]


def votes_until_settled(counts: Mapping[str, int], threshold: int, remaining: int) -> int:
    """The fewest further votes after which all labels could be settled; 0 if they are.

    A sentence is settled by as many votes for it as it lacks, or by as many against it as put the threshold
    out of reach. The one that needs most decides, since all sentences share their votes.
    """
    needed = (
        min(threshold - counts[id_], counts[id_] + remaining - threshold + 1)
        for id_ in undecided(counts, threshold, remaining)
    )
    return max(needed, default=0)


async def check_votes(state: CheckVotesInput, runtime: Runtime[Context]) -> CheckVotesUpdate:
    """Count the votes so far, and ask for more only where they matter."""
    settings = runtime.context.section(EvidenceSettings)
    votes = state.get("reflected_votes") or state["votes"]
    asked = state["asked_votes"]
    remaining = settings.most_votes - asked
    threshold = effective_threshold(settings, len(votes), asked)
    sentence_ids = runtime.context.cases[state["case_id"]].sentence_ids
    counts = count_votes(votes, sentence_ids, state.get("ranker_vote"), settings.ranker_weight)
    open_ids = undecided(counts, threshold, remaining)
    more = votes_until_settled(counts, threshold, remaining)
    lacking = max(0, (settings.minimum_votes or 0) - len(votes))
    more = min(max(more, lacking), remaining)
    return {
        "more_votes": more,
        "decisions": decision(
            "check_votes",
            _because(asked, settings.most_votes, len(open_ids), more),
            {
                "counts": counts,
                "threshold": threshold,
                "undecided": open_ids,
                "asked": asked,
                "remaining": remaining,
                "asks_for": more,
            },
        ),
    }


def _because(asked: int, most: int, undecided: int, more: int) -> str:
    so_far = f"after {asked} of at most {plural(most, 'vote')}"
    if not more:
        return f"{so_far} no further vote can change a label"
    open_ = "too few votes are usable"
    if undecided:
        open_ = "1 label is open" if undecided == 1 else f"{undecided} labels are open"
    return f"{so_far} {open_}; {more} more could settle it"


CHECK_VOTES = NodeSpec(
    run=check_votes,
    role="vote_count",
    sections=(EvidenceSettings,),
    facts={
        "undecided": id_list("open"),
        "counts": VOTE_COUNTS,
        **plain("threshold", "asked", "remaining", "asks_for"),
    },
)
