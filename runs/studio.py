"""Graphs for `langgraph dev`: the run-time context is made from plain strings that a person can type."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cases.load import find_cases
from cases.records import Case
from graph.recipe import check_prompts, load_recipe
from graph.systems import build_system
from nodes.context import Context
from nodes.settings import Settings
from prompts import PromptSet, load_prompts
from ranking.load import load_ranker
from ranking.ranker import Ranker
from ranking.vectors import TextVectors
from runs.assemble import connect_roles, open_pool, sample_cases
from runs.folder import CALLS
from runs.retrieval_tools import load_retrieval
from serving.client import ModelClient
from serving.demonstrations import DemonstrationPool
from serving.journal import Journal
from serving.model_name import assign_roles
from serving.privacy import switch_off_telemetry

_FOLDER = Path("out", "studio")


@dataclass(frozen=True)
class StudioContext:
    """What a person sets in Studio; nodes see the same attributes as in a batch."""

    model: str = field(default="embedded:smollm2-135m", metadata={"description": "model string of all roles"})
    recipe: str = field(default="demo", metadata={"description": "packaged recipe or recipe file"})
    case_file: str = field(default="", metadata={"description": "case file; empty: the sample batch"})

    @property
    def cases(self) -> Mapping[str, Case]:
        """Cases of the file by id."""
        return _load(self).cases

    @property
    def client(self) -> ModelClient:
        """Asks the model; its journal is in `out/studio`."""
        return _load(self).client

    @property
    def prompts(self) -> PromptSet:
        """The recipe's prompts."""
        return _load(self).prompts

    @property
    def demonstrations(self) -> DemonstrationPool | None:
        """The packaged sample pool."""
        return _load(self).demonstrations

    @property
    def ranker(self) -> Ranker | None:
        """The recipe's, where it wants one."""
        return _load(self).ranker

    @property
    def retriever(self) -> Ranker | None:
        """The recipe's, where its graph retrieves."""
        return _load(self).retriever

    @property
    def reranker(self) -> Ranker | None:
        """The recipe's, where it wants one."""
        return _load(self).reranker

    @property
    def vectors(self) -> TextVectors | None:
        """Where answers are attributed."""
        return _load(self).vectors

    @property
    def acronyms(self) -> Mapping[str, str] | None:
        """Where the recipe writes them out."""
        return _load(self).acronyms

    @property
    def settings(self) -> Settings:
        """The recipe."""
        return _load(self).settings


@lru_cache(maxsize=4)
def _load(context: StudioContext) -> Context:
    recipe = load_recipe(context.recipe)
    prompts = load_prompts(recipe.prompts)
    check_prompts(recipe, prompts, context.recipe)
    files = find_cases([Path(context.case_file)]) if context.case_file else sample_cases("batch")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    backends = connect_roles(assign_roles([context.model], recipe.models))
    # Properties are not async, and the server's own event loop is running here.
    with ThreadPoolExecutor(1) as thread:
        pool = thread.submit(asyncio.run, open_pool(None, recipe.embedding, lambda _: None)).result()
    return Context(
        cases={case.id: case for case in files if isinstance(case, Case)},
        client=ModelClient(backends, Journal(_FOLDER / CALLS)),
        prompts=prompts,
        demonstrations=pool,
        ranker=load_ranker(recipe.evidence.ranker) if recipe.ranks else None,
        **load_retrieval(recipe, build_system(recipe.system).nodes)._asdict(),
        settings=recipe,
    )


switch_off_telemetry()
heids = build_system("heids", StudioContext)
tamu = build_system("tamu", StudioContext)
weak_labels = build_system("weak_labels", StudioContext)
