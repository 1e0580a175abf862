"""Every vote of a case before and after reflection, as its trace tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runs.trace_file import Line


@dataclass(slots=True)
class Ballot:
    """One vote.

    Attributes:
        vote: Its number, as the trace counts.
        before: Ids that its first reply calls essential; None where no reply was usable.
        after: Ids once it was reflected on; None without a reflection.
        first_calls: Keys of the calls that asked for it.
        reflection_calls: Keys of the calls that reflected on it.
        fault: What went wrong with it, in words.
        ranker: Identity of the ranker whose vote it is; empty for a vote of a model.
        weight: Votes that it counts for.
    """

    vote: int
    before: frozenset[str] | None = None
    after: frozenset[str] | None = None
    first_calls: list[str] = field(default_factory=list)
    reflection_calls: list[str] = field(default_factory=list)
    fault: str = ""
    ranker: str = ""
    weight: int = 1

    def names(self, id_: str) -> bool:
        """Whether its last word calls the sentence essential."""
        final = self.before if self.after is None else self.after
        return final is not None and id_ in final

    def change(self, id_: str) -> str:
        """`added` or `dropped` where reflection changed the sentence, else empty."""
        if self.before is None or self.after is None or (id_ in self.before) == (id_ in self.after):
            return ""
        return "added" if id_ in self.after else "dropped"


def read_ballots(trace: Sequence[Line]) -> list[Ballot]:
    """The votes of a case by number, failed ones and a ranker's among them; none without a trace."""
    found: dict[int, Ballot] = {}

    def of(vote: int | str) -> Ballot:
        return found.setdefault(int(vote), Ballot(int(vote)))

    for step in trace:
        facts = step.get("facts") or {}
        if "before" in facts and "after" in facts:
            _read_reflection(of(facts["vote"]), step)
        elif "ranker" in facts and "essential" in facts:
            ballot = of(facts["vote"])
            ballot.before, ballot.ranker = frozenset(facts["essential"]), facts["ranker"]
        elif isinstance(facts.get("votes"), list):
            for vote in facts["votes"]:
                of(vote["vote"]).before = frozenset(vote["essential"])
            for kind in ("rescued_votes", "failed_votes"):
                for vote, fault in facts.get(kind, {}).items():
                    of(vote).fault = fault
            for call in step["calls"]:
                of(call["sample"]).first_calls.append(call["key"])
        if facts.get("ranker_votes"):
            for ballot in found.values():
                ballot.weight = facts["ranker_votes"] if ballot.ranker else 1
    return [found[vote] for vote in sorted(found)]


def _read_reflection(ballot: Ballot, step: Line) -> None:
    facts = step["facts"]
    if ballot.before is None:
        ballot.before = frozenset(facts["before"])
    ballot.after = frozenset(facts["after"])
    ballot.reflection_calls += [call["key"] for call in step["calls"]]
    if facts.get("error_class"):
        ballot.fault = step["because"]


def read_threshold(trace: Sequence[Line]) -> int | None:
    """Votes that an essential sentence needs (T), as last counted; None where none were counted."""
    for step in reversed(trace):
        facts = step.get("facts") or {}
        if "counts" in facts and "threshold" in facts:
            threshold: int = facts["threshold"]
            return threshold
    return None
