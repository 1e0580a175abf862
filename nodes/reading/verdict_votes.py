"""From readings to a verdict and to how far they differ (Vladika and Matthes 2024, section 3.3)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

from cases.records import Verdict
from nodes.retrieval.document_records import Disagreement, EvidencePassage, Reading, ReadingCounts

READINGS: tuple[Reading, ...] = get_args(Reading)
"""In the order that wins ties."""

_VERDICTS: Mapping[Reading, Verdict] = {"supports": "yes", "neutral": "unknown", "refutes": "no"}
_UNKNOWN = "unknown"
_DIGITS = 4


def majority(votes: Mapping[Reading, float], classes: Literal[2, 3]) -> Verdict:
    """The verdict of a vote.

    With two classes neutral readings do not count, and `no` wins ties. With three the earlier of supports,
    neutral and refutes wins ties. Without any vote it is `no` with two classes and `unknown` with three.

    Args:
        votes: Votes, or their weights, by reading; a missing one has none.
        classes: How many answers there are.
    """
    weights = _rounded(votes)
    if classes == 2:
        return "yes" if weights["supports"] > weights["refutes"] else "no"
    if not any(weights.values()):
        return "unknown"
    return _VERDICTS[max(READINGS, key=lambda reading: weights[reading])]


def is_tied(votes: Mapping[Reading, float], classes: Literal[2, 3]) -> bool:
    """Whether another verdict has as many votes as `majority`'s; False without votes."""
    weights = _rounded(votes)
    counted = [weights[reading] for reading in READINGS if classes == 3 or reading != "neutral"]
    return max(counted) > 0 and counted.count(max(counted)) > 1


def _rounded(votes: Mapping[Reading, float]) -> dict[Reading, float]:
    """Rounded, as the last bits of sums depend on their order and must not decide."""
    return {reading: round(votes.get(reading, 0), 9) for reading in READINGS}


def weigh(
    passages: Iterable[EvidencePassage], weighting: Literal["count", "probability"]
) -> dict[Reading, float]:
    """Votes by reading; passages that could not be read have none."""
    votes: dict[Reading, float] = dict.fromkeys(READINGS, 0.0)
    for one in passages:
        if one["reading"] is not None:
            known = weighting == "probability" and one["probability"] is not None
            votes[one["reading"]] += (one["probability"] or 0.0) if known else 1.0
    return votes


def count_readings(passages: Sequence[EvidencePassage]) -> ReadingCounts:
    """How many passages say what."""
    read = [one["reading"] for one in passages]
    return ReadingCounts(
        supports=read.count("supports"),
        neutral=read.count("neutral"),
        refutes=read.count("refutes"),
        missing=read.count(None),
    )


def measure_disagreement(passages: Sequence[EvidencePassage]) -> Disagreement:
    """Disagreement of readings, overall, by year and by kind of study; future work in the paper."""
    counts = count_readings(passages)
    shares = sorted((counts["supports"], counts["neutral"], counts["refutes"]), reverse=True)
    total = sum(shares)
    return Disagreement(
        entropy=round(_entropy(shares), _DIGITS) if total else None,
        margin=round((shares[0] - shares[1]) / total, _DIGITS) if total else None,
        by_year=_grouped(passages, lambda one: str(one["year"] or _UNKNOWN)),
        by_strength=_grouped(passages, lambda one: one["strength"] or _UNKNOWN),
    )


def _entropy(counts: Sequence[int]) -> float:
    total = sum(counts)
    shares = [count / total for count in counts if count]
    return sum(-share * math.log(share) for share in shares) / math.log(len(READINGS))


def _grouped(
    passages: Iterable[EvidencePassage], name: Callable[[EvidencePassage], str]
) -> dict[str, dict[Reading, int]]:
    groups: dict[str, dict[Reading, int]] = defaultdict(lambda: dict.fromkeys(READINGS, 0))
    for one in passages:
        if one["reading"] is not None:
            groups[name(one)][one["reading"]] += 1
    return {group: groups[group] for group in sorted(groups)}
