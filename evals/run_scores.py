"""All scores of a run as JSON, whatever its system answers: what `evigraph score --json` prints of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evals.bioasq.parts import Definitions
from evals.bioasq.scores import gives_biomedical
from evals.bioasq.scores import score_run as score_biomedical
from evals.scoring.scored_tasks import score_run
from evals.verdicts.scores import gives_verdicts, score_verdicts
from runs.record.folder import RunFolder

_NOTES = ("notes", "not_computed")


def run_scores(run: RunFolder) -> dict[str, Any]:
    """Scores with their intervals, by `tasks`, `verdicts` or `bioasq`.

    Raises:
        ScoringError: Nothing can be scored.
        InputError: A case file or key cannot be read.
    """
    if gives_biomedical(run):
        parts = score_biomedical(run, (), None, Definitions(False, "capped", "perl"), None)
        return dict(bioasq=[one.as_json() for one in parts])
    if gives_verdicts(run):
        return {"verdicts": [one.as_json() for one in score_verdicts(run)]}
    return {"tasks": [one.as_json() for one in score_run(run)]}


def without_notes(scores: dict[str, Any]) -> dict[str, Any]:
    """Numbers alone."""
    return {
        name: [{key: value for key, value in one.items() if key not in _NOTES} for one in group]
        for name, group in scores.items()
    }


def flat_scores(scores: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of `run_scores`, with their intervals, for a list."""
    for group in scores.values():
        for one in group:
            title = str(one.get("task") or one.get("part") or one.get("classes") or "")
            intervals = one.get("intervals") or {}
            for name, value in _numbers({**(one.get("values") or one), **(one.get("extra") or {})}):
                bounds = intervals.get(name)
                between = f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else ""
                yield f"{title} {name}".strip(), f"{value:.2f}{between}"


def _numbers(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, dict) and name != "intervals":
            yield from _numbers(value, f"{above}{name} ")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{above}{name}", value
