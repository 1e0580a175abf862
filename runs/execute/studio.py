"""Graphs for `langgraph dev`: the run-time context is made from plain strings that a person can type."""

from __future__ import annotations

import asyncio
import difflib
import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from cases.load import find_cases, packaged_cases
from cases.records import Case
from graph.recipe import check_prompts, load_recipe
from graph.resource import ResourceRequest, open_resources
from graph.system import find_system, systems
from nodes.core.context import Context
from prompts import load_prompts
from runs.execute.assemble import connect_roles, tools_of
from runs.record.folder import CALLS
from serving.journal.journal import Journal
from serving.policy.gate import hold_for, take_cases
from serving.policy.privacy import switch_off_telemetry
from serving.protocol.model_name import assign_roles
from serving.requests.client import ModelClient
from storage.errors import InputError

_FOLDER = Path("out", "studio")
_PLACES = ("corpus", "index")
_OF_NODES = {*(one.name for one in fields(Context)), *(name for name in vars(Context) if name[0] != "_")}


@dataclass(frozen=True)
class StudioContext:
    """Settings of a person in Studio; nodes find the attributes of `Context` here, as in a batch."""

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


class _Cases(dict[str, Case]):
    """The cases that can be asked for; a thread names one of them."""

    def __init__(self, origin: str, cases: Iterable[Case]) -> None:
        super().__init__({case.id: case for case in cases})
        self._origin = origin

    def __missing__(self, case_id: str) -> Case:
        near = difflib.get_close_matches(case_id, self, n=1)
        known = ", ".join(itertools.islice(self, 5)) + (", ..." if len(self) > 5 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"known: {known}"
        raise InputError(self._origin, f"no case {case_id!r}", hint)


@lru_cache(maxsize=4)
def _load(context: StudioContext) -> Context:
    recipe = load_recipe(context.recipe)
    system = find_system(recipe.system)
    prompts = load_prompts(recipe.prompts, system.contracts)
    check_prompts(system, recipe, prompts, context.recipe)
    cases = find_cases([Path(context.case_file)]) if context.case_file else packaged_cases(system.samples)
    places = {name: Path(place) for name in _PLACES if (place := getattr(context, name))}
    case_files = [Path(context.case_file)] if context.case_file else []
    hold_for([*case_files, *places.values()])
    take_cases(case_files)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    backends = connect_roles(assign_roles([context.model], recipe.models))
    # One question runs at a time; the others may be demonstrations.
    request = ResourceRequest(recipe, context.recipe, places)
    # Attributes are not async, and the server's own event loop is running here.
    with ThreadPoolExecutor(1) as thread:
        opened = thread.submit(asyncio.run, open_resources(system.resources, request)).result()
    named = context.case_file or f"the samples of {recipe.system}"
    return Context(
        cases=_Cases(named, (case for case in cases if isinstance(case, Case))),
        client=ModelClient(backends, Journal(_FOLDER / CALLS)),
        prompts=prompts,
        settings=recipe,
        tools=tools_of(opened),
    )


switch_off_telemetry()
# `langgraph.json` names them one by one.
globals().update({name: find_system(name).build(StudioContext) for name in systems()})
