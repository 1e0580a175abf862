"""Cases with votes in few letters."""

from __future__ import annotations

from cases.records import Label
from evals.analysis.voted_cases import LabelledVote, VotedCase
from evals.scoring.gold import GoldCase


def vote(before: str, after: str | None = None) -> LabelledVote:
    return LabelledVote(frozenset(before), frozenset(before if after is None else after))


def voted(
    case_id: str,
    counts: str,
    essential: str | None = None,
    *,
    supplementary: str = "",
    votes: tuple[LabelledVote, ...] = (),
    usable: int = 3,
    asked: int = 3,
    intent: str | None = None,
) -> VotedCase:
    """`counts="302"`: three votes for sentence 1, none for 2, two for 3."""
    by_id = {str(number): int(digit) for number, digit in enumerate(counts, 1)}
    gold = GoldCase(case_id)
    if essential is not None:
        labels: dict[str, Label] = dict.fromkeys(by_id, "not-relevant")
        labels |= dict.fromkeys(essential, "essential")
        labels |= dict.fromkeys(supplementary, "supplementary")
        gold = GoldCase(case_id, labels=labels)
    evidence = {
        "threshold": frozenset(id_ for id_, number in by_id.items() if number >= 2),
        "high_recall": frozenset(id_ for id_, number in by_id.items() if number >= 1),
    }
    return VotedCase(case_id, by_id, usable, asked, evidence, intent, gold, votes)
