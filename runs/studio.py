"""Graphs for `langgraph dev`: the run-time context is made from plain strings that a person can type."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from cases.load import find_cases
from cases.records import Case
from graph.recipe import check_prompts, load_recipe
from graph.systems import build_system
from nodes.core.context import Context
from prompts import load_prompts
from ranking.load import load_ranker
from runs.assemble import connect_roles, open_pool, sample_cases
from runs.folder import CALLS
from runs.literature import open_sources
from runs.node_tools import node_tools
from runs.retrieval_tools import load_retrieval
from runs.shots import open_shots
from runs.unread_sections import shows_demonstrations
from serving.client import ModelClient
from serving.journal import Journal
from serving.model_name import assign_roles
from serving.privacy import switch_off_telemetry

_FOLDER = Path("out", "studio")
_SAMPLES = {"bioasq": "bioasq/questions.json", "timeaware": "health/questions.jsonl"}
_OF_NODES = frozenset(one.name for one in fields(Context))


@dataclass(frozen=True)
class StudioContext:
    """What a person sets in Studio; nodes find the attributes of `Context` here, as in a batch."""

    model: str = field(default="embedded:smollm2-135m", metadata={"description": "model string of all roles"})
    recipe: str = field(default="demo", metadata={"description": "packaged recipe or recipe file"})
    case_file: str = field(
        default="", metadata={"description": "case file; empty: the samples of the recipe's system"}
    )
    corpus: str = field(default="", metadata={"description": "folder of a corpus, where one is searched"})
    index: str = field(default="", metadata={"description": "folder of an index of vectors over it"})

    def __getattr__(self, name: str) -> Any:
        """Made from the strings when a node first asks; the journal is in `out/studio`."""
        if name not in _OF_NODES:
            raise AttributeError(name)
        return getattr(_load(self), name)


@lru_cache(maxsize=4)
def _load(context: StudioContext) -> Context:
    recipe = load_recipe(context.recipe)
    prompts = load_prompts(recipe.prompts)
    check_prompts(recipe, prompts, context.recipe)
    nodes = build_system(recipe.system).nodes
    samples = _SAMPLES.get(recipe.system, "batch.xml")
    cases = find_cases([Path(context.case_file)]) if context.case_file else sample_cases(samples)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    backends = connect_roles(assign_roles([context.model], recipe.models))
    pool = None
    if recipe.needs_demonstrations and shows_demonstrations(nodes):
        # Attributes are not async, and the server's own event loop is running here.
        with ThreadPoolExecutor(1) as thread:
            pool = thread.submit(asyncio.run, open_pool(None, recipe.embedding, lambda _: None)).result()
    corpus, index = (Path(given) if given else None for given in (context.corpus, context.index))
    return Context(
        cases={case.id: case for case in cases if isinstance(case, Case)},
        client=ModelClient(backends, Journal(_FOLDER / CALLS)),
        prompts=prompts,
        demonstrations=pool,
        ranker=load_ranker(recipe.evidence.ranker) if recipe.ranks else None,
        **node_tools(
            load_retrieval(recipe, nodes),
            open_sources(recipe, nodes, corpus, index, context.recipe),
            # One question runs at a time; the others may be its shots.
            open_shots(recipe, nodes, None, (), context.recipe),
        ),
        settings=recipe,
    )


switch_off_telemetry()
bioasq = build_system("bioasq", StudioContext)
heids = build_system("heids", StudioContext)
tamu = build_system("tamu", StudioContext)
timeaware = build_system("timeaware", StudioContext)
weak_labels = build_system("weak_labels", StudioContext)
