"""The full map of labels against the essential ids alone: tokens, time and agreement on the same cases.

Both forms run one after the other, on any model. Their prompts differ from the system turn on, so neither
finds more than its first lines in a server's prefix cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evals.bench.benchmark import Part, Report, Result
from evals.bench.measuring import scratch_folder, turns
from evals.bench.workload import demo_recipe, ready, run_cases, write_cases
from evals.reply_forms import Comparison, compare_reply_forms
from nodes.evidence.settings import EvidenceSettings
from runs.folder import RunFolder
from serving.limits import Limits
from serving.model_name import parse_model_name

FORMS = ("labels", "ids")


@dataclass(frozen=True, slots=True)
class Options:
    """The model, cases and repeats, and the connections; None is the default of a run."""

    model: str
    cases: int = 4
    repeats: int = 1
    max_connections: int | None = None


TINY = {"cases": 1}


def measure(options: Options, report: Report) -> Result:
    """Both forms in turn."""
    with scratch_folder() as folder:
        return result(asyncio.run(_measure(options, folder, report)), options)


async def _measure(options: Options, folder: Path, report: Report) -> list[Comparison]:
    cases = write_cases(folder, options.cases)
    model = parse_model_name(options.model)
    limits = Limits(options.max_connections, options.max_connections)
    for repeat, form in turns(FORMS, options.repeats, report):
        recipe = demo_recipe(stop_after="evidence")
        asked = recipe.section(EvidenceSettings).model_dump()
        evidence = EvidenceSettings.model_validate({**asked, "reply": form})
        recipe = recipe.model_copy(update={"evidence": evidence})
        assembly = await ready(recipe, cases, model)
        await run_cases(assembly, folder / f"{form}-{repeat}", limits)
    return [
        compare_reply_forms(*(RunFolder(folder / f"{form}-{repeat}") for form in FORMS))
        for repeat in range(options.repeats)
    ]


def result(comparisons: Sequence[Comparison], options: Options) -> Result:
    """The ratio of the tokens that both forms write; time and agreement beside it."""
    return Result(
        "replies",
        Part("full maps of labels", "tokens written", tuple(one.first.output_tokens for one in comparisons)),
        Part("essential ids", "tokens written", tuple(one.second.output_tokens for one in comparisons)),
        details={
            "model": options.model,
            "cases": options.cases,
            "comparisons": [asdict(one) for one in comparisons],
        },
    )
