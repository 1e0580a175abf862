"""Changes made by self-reflection, vote by vote (TAMU 2026, section 4.1.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evals.analysis.sweep import EvidenceScores, evidence_scores
from evals.analysis.voted_cases import VotedCase
from nodes.evidence.aggregate_votes import scaled_threshold


@dataclass(frozen=True, slots=True)
class ReflectionChanges:
    """Labels that reflection changed, over all votes.

    Attributes:
        votes: Votes that were reflected on.
        changed_votes: Votes with at least one changed label.
        added: Labels turned to essential; `added_right` of them are essential by the key.
        removed: Labels turned to not-essential; `removed_right` of them are not essential by the key.
        before: Scores of the labels that the first votes would have given; None without a key.
        after: Scores of the labels that the reflected votes gave.
    """

    votes: int
    changed_votes: int
    added: int
    removed: int
    added_right: int | None
    removed_right: int | None
    before: EvidenceScores | None
    after: EvidenceScores | None


def reflection_changes(
    cases: Sequence[VotedCase], keyed: Sequence[VotedCase], threshold: int, votes: int
) -> ReflectionChanges | None:
    """Compare labels before and after reflection; None where no vote was read."""
    every = [vote for case in cases for vote in case.votes]
    if not every:
        return None
    added = [vote.after - vote.before for vote in every]
    removed = [vote.before - vote.after for vote in every]
    judged = [(case.gold.essential, *vote) for case in keyed for vote in case.votes]
    right = sum(len((after - before) & essential) for essential, before, after in judged)
    rightly_removed = sum(len(before - after - essential) for essential, before, after in judged)
    return ReflectionChanges(
        votes=len(every),
        changed_votes=sum(vote.before != vote.after for vote in every),
        added=sum(map(len, added)),
        removed=sum(map(len, removed)),
        added_right=right if keyed else None,
        removed_right=rightly_removed if keyed else None,
        before=_scores("before", keyed, threshold, votes) if keyed else None,
        after=_scores("after", keyed, threshold, votes) if keyed else None,
    )


def _scores(
    name: Literal["before", "after"], keyed: Sequence[VotedCase], threshold: int, votes: int
) -> EvidenceScores:
    chosen = []
    for case in keyed:
        least = scaled_threshold(threshold, votes - (case.asked - case.usable), votes)
        counts = Counter(id_ for vote in case.votes for id_ in getattr(vote, name))
        counts.update(dict.fromkeys(case.ranked or (), case.ranker_weight))
        chosen.append(frozenset(id_ for id_ in case.counts if counts[id_] >= least))
    return evidence_scores(name, keyed, chosen)
