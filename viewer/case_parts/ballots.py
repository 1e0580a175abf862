"""Every vote of a case before and after reflection, from its trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from graph.system import node_role
from runs.record.trace_file import Line


@dataclass(slots=True)
class Ballot:
    """One vote.

    Attributes:
        before: Ids that its first reply calls essential; None where no reply was usable.
        after: Ids once it was reflected on; None without a reflection.
        weighed: Ids that the model was asked for by themselves and gave a label; None for a whole reply.
        sentence_calls: Of those the ones that asked for a sentence by itself, by its id.
        ranker: Identity of the ranker whose vote it is; empty for a vote of a model.
    """

    vote: int
    before: frozenset[str] | None = None
    after: frozenset[str] | None = None
    weighed: frozenset[str] | None = None
    first_calls: list[str] = field(default_factory=list)
    sentence_calls: dict[str, list[str]] = field(default_factory=dict)
    reflection_calls: list[str] = field(default_factory=list)
    fault: str = ""
    ranker: str = ""
    weight: int = 1

    def names(self, id_: str) -> bool:
        """Whether the final vote labels the sentence essential."""
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
        facts = step.get("facts")
        if not facts:
            continue
        role = node_role(step["node"])
        if role == "reflection":
            _read_reflection(of(facts["vote"]), step)
        elif role == "ranker_vote":
            ballot = of(facts["vote"])
            ballot.before, ballot.ranker = frozenset(facts["essential"]), facts["ranker"]
        elif role == "votes" and "votes" in facts:
            _read_votes(of, step)
        elif role == "vote_count" and facts.get("ranker_votes"):
            for ballot in found.values():
                ballot.weight = facts["ranker_votes"] if ballot.ranker else 1
    return [found[vote] for vote in sorted(found)]


def _read_votes(of: Callable[[int | str], Ballot], step: Line) -> None:
    facts = step["facts"]
    for vote in facts["votes"]:
        _read_vote(of(vote["vote"]), vote, step)
    for kind in ("rescued_votes", "failed_votes"):
        for vote, fault in facts.get(kind, {}).items():
            of(vote).fault = fault
    for call in step["calls"]:
        of(call["sample"]).first_calls.append(call["key"])


def _read_vote(ballot: Ballot, vote: Mapping[str, Any], step: Line) -> None:
    ballot.before = frozenset(vote["essential"])
    if "log_odds" in vote:
        ballot.weighed = frozenset(vote["log_odds"])
        ballot.sentence_calls = _calls_by_sentence(step)


def _calls_by_sentence(step: Line) -> dict[str, list[str]]:
    """Keys of the calls by sentence, in note order."""
    keys = iter([call["key"] for call in step["calls"]])
    counts: dict[str, int] = step["facts"].get("sentence_calls", {})
    return {id_: list(islice(keys, count)) for id_, count in counts.items()}


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
        if step.get("facts") and node_role(step["node"]) == "vote_count":
            threshold: int | None = step["facts"].get("threshold")
            return threshold
    return None


def read_rule(steps: Sequence[Line]) -> Line | None:
    """Facts of the last count of votes if a calibrated rule decided; else None."""
    for step in reversed(steps):
        if step.get("facts") and node_role(step["node"]) == "vote_count":
            facts: Line = step["facts"]
            return facts if "sums" in facts else None
    return None
