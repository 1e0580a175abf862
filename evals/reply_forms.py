"""Two runs on the same cases, one for each form of reply: what a form costs, and whether labels stay.

The labelling stage is everything from the first vote to the last reflection. Its time on a case is the span
of the trace from the begin of the first of its nodes to the end of the last; reflections that run side by
side are not added up. Times of a run whose calls were replayed from its journal mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nodes.evidence.check_votes import CHECK_VOTES
from nodes.evidence.label_evidence import LABEL_EVIDENCE
from nodes.evidence.reflect_on_labels import REFLECT_ON_LABELS
from runs.folder import Line, RunFolder

STAGE = frozenset({node.name for node in (LABEL_EVIDENCE, REFLECT_ON_LABELS, CHECK_VOTES)})


class NothingToCompare(Exception):
    """Two runs without a case that is labelled in both."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """What labelling took in one run, over the compared cases.

    Attributes:
        reply: The recipe's form of reply.
        calls: Samples, correction turns included.
        input_tokens: Tokens read.
        output_tokens: Tokens written.
        seconds: Sum over cases; cases that ran side by side each count in full.
    """

    run: str
    reply: str
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs beside each other.

    Attributes:
        cases: Cases that are done in both runs.
        sentences: Sentences of these cases.
        agreement: Share of sentences with the same label in both.
        kappa: Cohen's kappa of the labels; None where chance alone explains full agreement.
        essential: Sentences called essential, by run.
    """

    first: StageCost
    second: StageCost
    cases: int
    sentences: int
    agreement: float
    kappa: float | None
    essential: tuple[int, int]

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        return asdict(self)


def compare_reply_forms(first: RunFolder, second: RunFolder) -> Comparison:
    """Compare the labelling of two finished runs.

    Raises:
        NothingToCompare: No case is labelled in both.
    """
    one, other = _labels(first), _labels(second)
    common = [case_id for case_id in one if one[case_id].keys() == other.get(case_id, {}).keys()]
    pairs = [(one[case_id][id_], other[case_id][id_]) for case_id in common for id_ in one[case_id]]
    if not pairs:
        raise NothingToCompare(f"{first.path} and {second.path} have no case that is labelled in both")
    return Comparison(
        first=_cost(first, common),
        second=_cost(second, common),
        cases=len(common),
        sentences=len(pairs),
        agreement=sum(mine == its for mine, its in pairs) / len(pairs),
        kappa=cohen_kappa(pairs),
        essential=(
            sum(mine == "essential" for mine, _ in pairs),
            sum(its == "essential" for _, its in pairs),
        ),
    )


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two raters beyond chance (Cohen 1960).

    Returns:
        At most 1; 0 is chance. None without pairs, and where both raters give all items the same one label.
    """
    count = len(pairs)
    firsts, seconds = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    # Counts, not shares: with shares, rounding would hide that agreement is certain.
    by_chance = sum(firsts[label] * seconds[label] for label in firsts)
    if by_chance == count * count:
        return None
    observed = sum(one == other for one, other in pairs) / count
    expected = by_chance / (count * count)
    return (observed - expected) / (1 - expected)


def stage_seconds(trace: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the begin of the first node of the stage to the end of its last."""
    steps = [step for step in trace if step["node"] in STAGE]
    if not steps:
        return 0.0
    return float(
        max(step["started"] + step["seconds"] for step in steps) - min(step["started"] for step in steps)
    )


def _labels(run: RunFolder) -> dict[str, dict[str, str]]:
    return {line["case_id"]: line["labels"] for line in run.cases() if line["status"] == "done"}


def _cost(run: RunFolder, case_ids: Sequence[str]) -> StageCost:
    passes = dict(run.passes())
    traces = [passes.get(case_id, []) for case_id in case_ids]
    calls: list[Line] = [
        call for trace in traces for step in trace if step["node"] in STAGE for call in step["calls"]
    ]
    return StageCost(
        run=str(run.path),
        reply=str(run.manifest.recipe.get("evidence", {}).get("reply", "labels")),
        calls=len(calls),
        input_tokens=sum(call["input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        seconds=round(sum(stage_seconds(trace) for trace in traces), 3),
    )
