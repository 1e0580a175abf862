"""The votes of a finished run beside the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evals.scoring.gold import GoldCase
from nodes.evidence.settings import VoteSettings
from runs.folder import Line, RunFolder
from runs.manifest import recorded_recipe


class LabelledVote(NamedTuple):
    """Sentences that one vote calls essential, before and after its reflection."""

    before: frozenset[str]
    after: frozenset[str]


@dataclass(frozen=True, slots=True)
class VotedCase:
    """One case that is done.

    Attributes:
        counts: Votes that call a sentence essential, for every sentence, in note order.
        usable: Number of votes that were counted, that of a ranker with its weight.
        asked: Number of votes that were asked for; those that failed included, and those of a ranker.
        evidence: Sentence ids of each evidence setting.
        intent: The predicted primary intent; None where none was predicted.
        gold: What the key says of the case.
        votes: Each vote of the model before and after reflection; empty unless asked for.
        ranked: Sentence ids of the ranker's vote; None where none voted.
        ranker_weight: Votes that it counts for.
    """

    case_id: str
    counts: Mapping[str, int]
    usable: int
    asked: int
    evidence: Mapping[str, frozenset[str]]
    intent: str | None
    gold: GoldCase | None
    votes: tuple[LabelledVote, ...] = field(default=())
    ranked: frozenset[str] | None = None
    ranker_weight: int = 0


def evidence_settings(run: RunFolder) -> VoteSettings:
    """How a run votes on evidence; the defaults where it does not."""
    return recorded_recipe(run.manifest).find_section(VoteSettings) or VoteSettings()


def read_voted_cases(
    run: RunFolder, gold: Mapping[str, GoldCase], *, with_votes: bool = True
) -> list[VotedCase]:
    """The cases of a run that ended with votes; failed ones have none.

    Args:
        run: The run.
        gold: The key by case id; may lack cases.
        with_votes: Read each vote from the trace as well, which takes longer.
    """
    votes = _votes(run) if with_votes else {}
    weight = evidence_settings(run).ranker_weight
    return [
        _voted_case(line, gold.get(line["case_id"]), votes.get(line["case_id"], ()), weight)
        for line in run.cases()
        if line["status"] == "done" and line.get("usable_votes")
    ]


def _voted_case(line: Line, gold: GoldCase | None, votes: tuple[LabelledVote, ...], weight: int) -> VotedCase:
    ranked, asked = line.get("ranker_vote"), line.get("asked_votes")
    return VotedCase(
        case_id=line["case_id"],
        counts=line["vote_counts"],
        usable=line["usable_votes"],
        asked=asked + weight if asked else line["usable_votes"],
        evidence={name: frozenset(ids) for name, ids in line["evidence"].items()},
        intent=(line.get("intent") or {}).get("primary"),
        gold=gold,
        votes=votes,
        ranked=frozenset(ranked["essential"]) if ranked else None,
        ranker_weight=weight,
    )


def _votes(run: RunFolder) -> dict[str, tuple[LabelledVote, ...]]:
    """Of each case the votes of its last pass."""
    return {case_id: tuple(vote for _, vote in votes_of_pass(lines)) for case_id, lines in run.passes()}


def votes_of_pass(lines: list[Line]) -> Iterator[tuple[int, LabelledVote]]:
    """The model's votes of one pass through the graph by their number, from its trace."""
    first: dict[int, frozenset[str]] = {}
    reflected: dict[int, frozenset[str]] = {}
    for line in lines:
        facts: dict[str, Any] = line.get("facts") or {}
        if "votes" in facts:
            first |= {vote["vote"]: frozenset(vote["essential"]) for vote in facts.get("votes", ())}
        elif {"vote", "after"} <= facts.keys():
            reflected[facts["vote"]] = frozenset(facts["after"])
    for number, before in first.items():
        yield number, LabelledVote(before, reflected.get(number, before))
