"""Evigraph from Python: open a graph, invoke it on cases, run batches, read runs."""

from cases.records import Case
from evigraph.batch import resume, run
from evigraph.open_graph import CaseFailed, Graph, Result, open
from graph.recipe import RecipeError
from runs import Run, RunError
from runs import open as open_run
from serving.policy.policy import PolicyError
from serving.protocol.errors import ModelError
from storage.errors import InputError

__all__ = (
    "Case",
    "CaseFailed",
    "Graph",
    "InputError",
    "ModelError",
    "PolicyError",
    "RecipeError",
    "Result",
    "Run",
    "RunError",
    "open",
    "open_run",
    "resume",
    "run",
)
