"""Exceptions to one line and an exit code."""

from __future__ import annotations

from cases.errors import InputError
from evals.bench.result import BenchError
from evals.experiments.errors import ExperimentError
from evals.scoring.matching import ScoringError
from evals.spans.errors import SpanExportError
from evals.studies.errors import StudyError
from graph.recipe import RecipeError
from graph.systems import UnknownSystem
from prompts import PromptError
from ranking.errors import RankerError
from runs.manifest import RunError, RunStopped
from serving.errors import CallError, ModelError
from serving.journal import JournalError
from weights.registry import WeightsError

_EXPECTED = (
    InputError,
    RecipeError,
    UnknownSystem,
    PromptError,
    RankerError,
    RunError,
    WeightsError,
    ModelError,
    CallError,
    JournalError,
    BenchError,
    ScoringError,
    ExperimentError,
    RankerError,
    StudyError,
    SpanExportError,
    OSError,
)


def explain(error: Exception) -> tuple[str, int]:
    """The line to print and the code to exit with."""
    line = " ".join(str(error).split())
    if isinstance(error, RunStopped):
        return line, 1
    if isinstance(error, _EXPECTED):
        return line, 2
    return f"internal error: {type(error).__name__}: {line} (run again with --debug for the traceback)", 1
