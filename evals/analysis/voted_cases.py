"""Votes of a finished run with the key, and their agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import krippendorff
import numpy as np

from evals.scoring.gold import GoldCase
from graph.system import node_role
from nodes.evidence.settings import VoteSettings
from runs.record.folder import Line, RunFolder
from runs.record.manifest import recorded_recipe


class LabelledVote(NamedTuple):
    """Sentences that one vote calls essential, before and after its reflection."""

    before: frozenset[str]
    after: frozenset[str]


@dataclass(frozen=True, slots=True)
class VotedCase:
    """One case that is done.

    Attributes:
        counts: Votes that call a sentence essential, for every sentence, in note order.
        usable: Number of counted votes, a ranker's counted with its weight.
        asked: Number of requested votes, including failed ones and a ranker's.
        evidence: Sentence ids of each evidence setting.
        intent: The predicted primary intent; None where none was predicted.
        gold: The case's key; without labels where the key does not have it.
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
    gold: GoldCase
    votes: tuple[LabelledVote, ...] = field(default=())
    ranked: frozenset[str] | None = None
    ranker_weight: int = 0


def evidence_settings(run: RunFolder) -> VoteSettings:
    """How a run votes on evidence; the defaults where it does not."""
    return recorded_recipe(run.manifest).find_section(VoteSettings) or VoteSettings()


def read_voted_cases(
    run: RunFolder, gold: Mapping[str, GoldCase], *, with_votes: bool = True
) -> list[VotedCase]:
    """The cases of a run that ended with votes; failed ones have none."""
    votes = {
        case_id: tuple(vote for _, vote in votes_of_pass(lines))
        for case_id, lines in (run.passes() if with_votes else ())
    }
    weight = evidence_settings(run).ranker_weight
    found = []
    for line in run.cases():
        if line["status"] != "done" or not line.get("usable_votes"):
            continue
        case_id, ranked, asked = line["case_id"], line.get("ranker_vote"), line.get("asked_votes")
        found.append(
            VotedCase(
                case_id=case_id,
                counts=line["vote_counts"],
                usable=line["usable_votes"],
                asked=asked + weight if asked else line["usable_votes"],
                evidence={name: frozenset(ids) for name, ids in line["evidence"].items()},
                intent=(line.get("intent") or {}).get("primary"),
                gold=gold.get(case_id) or GoldCase(case_id),
                votes=votes.get(case_id, ()),
                ranked=frozenset(ranked["essential"]) if ranked else None,
                ranker_weight=weight,
            )
        )
    return found


def votes_of_pass(lines: list[Line]) -> Iterator[tuple[int, LabelledVote]]:
    """The model's votes of one pass through the graph by their number, from its trace."""
    first: dict[int, frozenset[str]] = {}
    reflected: dict[int, frozenset[str]] = {}
    for line in lines:
        facts: dict[str, Any] = line.get("facts") or {}
        role = node_role(line["node"]) if facts else None
        if role == "votes":
            first |= {vote["vote"]: frozenset(vote["essential"]) for vote in facts.get("votes", ())}
        elif role == "reflection":
            reflected[facts["vote"]] = frozenset(facts["after"])
    for number, before in first.items():
        yield number, LabelledVote(before, reflected.get(number, before))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of votes on whether a sentence is essential.

    Attributes:
        sentences: Sentences with at least two votes.
        alpha: Krippendorff's alpha, nominal: 1 is full agreement, 0 chance. None where all votes are alike,
            since chance explains that as well.
        unanimous: Share of sentences on which all votes agree.
        pairwise: Share of pairs of votes that agree, mean over sentences.
        by_count: Sentences by how many of R votes call them essential, for cases with all R votes.
    """

    sentences: int
    alpha: float | None
    unanimous: float
    pairwise: float
    by_count: dict[int, int]


def vote_agreement(cases: Sequence[VotedCase], votes: int) -> Agreement | None:
    """Agreement over all sentences; None where no case has two votes. No key is needed.

    A ranker is one voter, whatever its vote counts for: it cannot agree with itself.
    """
    rows = [row for case in cases for row in _rows(case) if sum(row) > 1]
    if not rows:
        return None
    counts = np.asarray(rows)
    totals = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (totals * (totals - 1))
    alpha = None
    if counts.sum(axis=0).all():
        alpha = float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))
    by_count = Counter(number for case in cases if case.usable == votes for number in case.counts.values())
    return Agreement(
        sentences=len(rows),
        alpha=alpha,
        unanimous=float((counts.min(axis=1) == 0).mean()),
        pairwise=float(agreeing.mean()),
        by_count=dict(sorted(by_count.items())),
    )


def _rows(case: VotedCase) -> Iterator[tuple[int, int]]:
    """Voters against and for each sentence."""
    repeated = max(0, case.ranker_weight - 1)
    for id_, number in case.counts.items():
        essential = number - (repeated if case.ranked is not None and id_ in case.ranked else 0)
        yield case.usable - repeated - essential, essential
