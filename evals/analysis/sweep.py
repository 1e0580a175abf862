"""Scores of every vote threshold, from a run's counts (TAMU 2026, equation 22)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evals.analysis.voted_cases import VotedCase
from nodes.evidence.aggregate_votes import scaled_threshold
from ranking.measures import Counts, PrecisionRecallF1, count, macro, micro
from ranking.tuning import Counted, Family


@dataclass(frozen=True, slots=True)
class EvidenceScores:
    """Evidence scores of one selection of sentences. 0/0 follows the 2026 scorer.

    Attributes:
        name: The selection: `T = 2`, or an evidence setting.
        sentences: Sentences chosen, over all cases.
        lenient_micro: With the official meaning of 2026: supplementary sentences neither help nor harm.
    """

    name: str
    cases: int
    sentences: int
    strict_micro: PrecisionRecallF1
    strict_macro: PrecisionRecallF1
    lenient_micro: PrecisionRecallF1


@dataclass(frozen=True, slots=True)
class TunedThreshold:
    """A threshold chosen on some cases and scored on others.

    Attributes:
        thresholds: How often each threshold was chosen.
        tuned_on: The cases that it was chosen on, in words.
        strict_micro: On the cases that it was not chosen on.
    """

    thresholds: Mapping[int, int]
    tuned_on: str
    strict_micro: PrecisionRecallF1


def scores_in_percent(value: Any) -> Any:
    """Dictionaries, lists and scalars, with precision, recall and F1 by name and times 100, for programs."""
    if isinstance(value, PrecisionRecallF1):
        return value.in_percent()
    if isinstance(value, Mapping):
        return {name: scores_in_percent(one) for name, one in value.items()}
    if isinstance(value, list):
        return [scores_in_percent(one) for one in value]
    return value


def labelled(cases: Sequence[VotedCase]) -> list[VotedCase]:
    """The cases that the key labels."""
    return [case for case in cases if case.gold.labels]


def chosen_at(case: VotedCase, threshold: int, votes: int) -> frozenset[str]:
    """Sentences with enough votes; T is scaled down where votes of the case have failed."""
    failed = case.asked - case.usable
    least = scaled_threshold(threshold, votes - failed, votes)
    return frozenset(id_ for id_, number in case.counts.items() if number >= least)


def sweep(cases: Sequence[VotedCase], votes: int) -> list[EvidenceScores]:
    """Scores of every threshold from 1 to R, the most votes that a case was asked for."""
    return [
        evidence_scores(f"T = {threshold}", cases, [chosen_at(case, threshold, votes) for case in cases])
        for threshold in range(1, votes + 1)
    ]


def settings(cases: Sequence[VotedCase]) -> list[EvidenceScores]:
    """Scores of the evidence settings that the run has kept: threshold, high and low recall."""
    names = list(cases[0].evidence) if cases else []
    return [evidence_scores(name, cases, [case.evidence[name] for case in cases]) for name in names]


def evidence_scores(
    name: str, cases: Sequence[VotedCase], chosen: Sequence[frozenset[str]]
) -> EvidenceScores:
    """Scores of one choice of sentences on labelled cases."""
    strict, lenient = [], []
    for case, ids in zip(cases, chosen, strict=True):
        strict.append(count(ids, case.gold.essential))
        lenient.append(count(ids - case.gold.supplementary, case.gold.essential))
    return EvidenceScores(
        name=name,
        cases=len(cases),
        sentences=sum(map(len, chosen)),
        strict_micro=micro(strict, "perfect"),
        strict_macro=macro(strict, "perfect"),
        lenient_micro=micro(lenient, "perfect"),
    )


def tune(cases: Sequence[VotedCase], votes: int) -> int:
    """The threshold of the best strict micro F1; among equals the largest, which asks for the least."""
    counted = _counted(cases, votes)
    return votes - counted.best(counted.families[0]).column


def tuned_elsewhere(cases: Sequence[VotedCase], votes: int, threshold: int, tuned_on: str) -> TunedThreshold:
    """Score a threshold that was chosen on other cases."""
    counts = [_counts(case, threshold, votes) for case in cases]
    return TunedThreshold({threshold: len(cases)}, tuned_on, micro(counts, "perfect"))


def leave_one_out(cases: Sequence[VotedCase], votes: int) -> TunedThreshold:
    """Choose the threshold of each case on all the others: what tuning is worth where there is one split."""
    picks = thresholds_by_others(cases, votes)
    counts = [_counts(case, picks[case.case_id], votes) for case in cases]
    return TunedThreshold(
        dict(sorted(Counter(picks.values()).items())), "all other cases", micro(counts, "perfect")
    )


def thresholds_by_others(cases: Sequence[VotedCase], votes: int) -> dict[str, int]:
    """Best threshold for each case, chosen on all the others."""
    counted = _counted(cases, votes)
    columns = counted.best_by_others(counted.families[0])
    return {case.case_id: votes - column for case, column in zip(cases, columns.tolist(), strict=True)}


def _counted(cases: Sequence[VotedCase], votes: int) -> Counted:
    """Thresholds from the largest, which asks for the least."""
    counts = [[_counts(case, threshold, votes) for threshold in range(votes, 0, -1)] for case in cases]
    correct, predicted, gold = np.moveaxis(np.array(counts, dtype=np.int64), -1, 0)
    return Counted([Family(slice(0, votes), (votes,), smoothed=False)], correct, predicted, gold[:, 0])


def _counts(case: VotedCase, threshold: int, votes: int) -> Counts:
    return count(chosen_at(case, threshold, votes), case.gold.essential)
