"""Made-up runs, keys and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cases.records import Label
from cases.submissions.archehr import Prediction, Task
from evals.compare.comparison import Comparison, compare_runs
from evals.compare.differences import Settings
from evals.compare.outcomes import CaseOutcome, RunOutcomes, Usage
from evals.scoring.gold import GoldCase, Labels
from evals.scoring.score import ArchehrScores, count_columns, made_task, score_predictions
from evals.scoring.tasks import TASKS
from ranking.measures import Counts
from runs.record.manifest import Inputs, Manifest

FEW = Settings(resamples=299)


def manifest(**changes: Any) -> Manifest:
    """Of a run of the system tamu."""
    values: dict[str, Any] = {
        "evigraph": "0",
        "system": "tamu",
        "recipe": {},
        "recipe_sha256": "",
        "recipe_origin": "tamu",
        "prompts": {},
        "inputs": Inputs(paths=[], sha256="", cases=3),
        "models": {},
        "versions": {},
    }
    return Manifest(**values | changes)


def outcome(case_id: str, essential: str = "", *, sentences: str = "1 2 3 4", **changes: Any) -> CaseOutcome:
    """A case that is done, with ids given as words."""
    chosen = essential.split()
    values: dict[str, Any] = {
        "error": None,
        "labels": {id_: "essential" if id_ in chosen else "not-essential" for id_ in sentences.split()},
        "intent": "prognosis",
        "answer": "It was done.",
        "usage": Usage(2, 100, 10),
        "route": ("label -> answer",),
    }
    return CaseOutcome(case_id, **values | changes)


def run(*cases: CaseOutcome, name: str = "run", shown: str = "", **changes: Any) -> RunOutcomes:
    """A run of some cases."""
    return RunOutcomes(
        name, manifest(**changes), {case.case_id: case for case in cases}, frozenset(shown.split())
    )


def gold(**essential: str) -> dict[str, Labels]:
    """Labels of sentences 1 to 4 by case: those named are essential, 4 is else supplementary."""
    labels: dict[str, Labels] = {}
    for case_id, ids in essential.items():
        of_case: dict[str, Label] = {"1": "not-relevant", "2": "not-relevant", "3": "not-relevant"}
        of_case["4"] = "supplementary"
        for id_ in ids.split():
            of_case[id_] = "essential"
        labels[case_id] = of_case
    return labels


def compared(
    first: RunOutcomes, second: RunOutcomes, labels: Mapping[str, Labels], settings: Settings = FEW
) -> Comparison:
    """With the evidence scored."""
    scores = (_scored(first, labels), _scored(second, labels))
    return compare_runs(first, second, scores, labels, settings)


def _scored(run: RunOutcomes, labels: Mapping[str, Labels]) -> list[ArchehrScores]:
    done = [case for case in run.cases.values() if not case.error]
    made = [Prediction(case.case_id, evidence=tuple(case.essential)) for case in done]
    return score_predictions(
        made, {case_id: GoldCase(case_id, labels=its) for case_id, its in labels.items()}
    )


def task_scores(
    task: Task,
    counts: Sequence[tuple[int, int, int]] = (),
    texts: Mapping[str, Sequence[float]] | None = None,
    ids: Sequence[str] = "0123456789abcdef",
) -> ArchehrScores:
    """Scores of cases with counts, which are those of every variant, and text metrics of each."""
    (length,) = {len(values) for values in (counts, *(texts or {}).values()) if values}
    rules = TASKS[task]
    variants = [variant.name for variant in rules.variants]
    columns = count_columns(rules, [dict.fromkeys(variants, Counts(*one)) for one in counts])
    return made_task(task, ids[:length], {**columns, **(texts or {})}, {})
