"""The full map of labels against the essential ids alone: tokens, time and agreement on the same cases.

The forms run one after the other, on any model. Their prompts differ from the system turn on, so none finds
more than its first lines in a server's prefix cache. Where the model gives log-probabilities, the question
for each sentence by itself stands beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import scratch_folder, turns
from evals.bench.workload import demo_recipe, ready, run_cases, write_cases
from evals.compare.changes import cohen_kappa
from graph.recipe import Recipe
from nodes.evidence.check_votes import CHECK_VOTES
from nodes.evidence.label_evidence import LABEL_EVIDENCE
from nodes.evidence.reflect_on_labels import REFLECT_ON_LABELS
from nodes.evidence.settings import POINTWISE, EvidenceSettings
from runs.folder import Line, RunFolder
from serving.errors import ModelError
from serving.limits import Limits
from serving.model_name import parse_model_name

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


FORMS = ("labels", "ids")

BESIDE = POINTWISE
"""Compared with the full map too. Its one vote is no sample among several."""


@dataclass(frozen=True, slots=True)
class Options:
    """The model, cases and repeats, and the connections; None is the default of a run."""

    model: str
    cases: int = 4
    repeats: int = 1
    max_connections: int | None = None


TINY = {"cases": 1}


def measure(options: Options, report: Report) -> Result:
    """All forms in turn."""
    with scratch_folder() as folder:
        return result(*asyncio.run(_measure(options, folder, report)), options)


async def _measure(
    options: Options, folder: Path, report: Report
) -> tuple[list[Comparison], list[Comparison], str]:
    """The ids and the single questions, each against the full map, and why the latter are left out."""
    cases = write_cases(folder, options.cases)
    model = parse_model_name(options.model)
    limits = Limits(options.max_connections, options.max_connections)
    left_out = ""
    for repeat, form in turns((*FORMS, BESIDE), options.repeats, report):
        try:
            assembly = await ready(_recipe(form), cases, model)
        except ModelError as error:
            if form != BESIDE:
                raise
            left_out = str(error)
            continue
        await run_cases(assembly, folder / f"{form}-{repeat}", limits)

    def compared(form: str) -> list[Comparison]:
        return [
            compare_reply_forms(
                RunFolder(folder / f"{FORMS[0]}-{repeat}"), RunFolder(folder / f"{form}-{repeat}")
            )
            for repeat in range(options.repeats)
        ]

    return compared(FORMS[1]), [] if left_out else compared(BESIDE), left_out


def _recipe(form: str) -> Recipe:
    recipe = demo_recipe(stop_after="evidence")
    # Single questions have votes, demonstrations and reflection of their own: one, and none.
    asked = {} if form == BESIDE else recipe.section(EvidenceSettings).model_dump()
    evidence = EvidenceSettings.model_validate({**asked, "reply": form})
    return recipe.model_copy(update={"evidence": evidence})


def result(
    comparisons: Sequence[Comparison], single: Sequence[Comparison], left_out: str, options: Options
) -> Result:
    """The ratio of the tokens that both forms write; time and agreement beside it.

    Args:
        comparisons: Of the full map with the ids, by repeat.
        single: Of the full map with a question for each sentence, by repeat.
        left_out: Why there are none of these; empty where there are.
        options: What was measured.
    """
    return Result(
        "replies",
        Part("full maps of labels", "tokens written", tuple(one.first.output_tokens for one in comparisons)),
        Part("essential ids", "tokens written", tuple(one.second.output_tokens for one in comparisons)),
        details={
            "model": options.model,
            "cases": options.cases,
            "comparisons": [asdict(one) for one in comparisons],
            BESIDE: left_out or [asdict(one) for one in single],
        },
    )
