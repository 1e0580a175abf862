"""Runs whose evidence a ranker has voted on, before their first case."""

from __future__ import annotations

import asyncio
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cases.selection import Selection
from graph.recipe import make_recipe
from graph.system import find_system
from ranking.errors import RankerError
from runs.estimate.dry_run import dry_run
from runs.execute.assemble import Request, assemble
from runs.execute.batch import Options
from runs.execute.servers import Servers
from runs.execute.watcher import SilentWatcher
from runs.record.manifest import differences
from serving.protocol.model_name import assign_roles
from tests.evigraph import evigraph, write_recipe

BATCH = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))


def request(voters: str, **evidence: Any) -> Request:
    values = {"voters": voters, "ranker": "bm25", "demonstrations": 1, "votes": 3, "threshold": 2, **evidence}
    recipe = make_recipe({"system": "tamu", "embedding": "lexical:256", "evidence": values}, "r")
    models = assign_roles(["scripted:auto"], {})
    return Request(recipe, "r", (BATCH,), (), models, selection=Selection(limit=3))


async def test_another_ranker_is_a_change_that_a_resume_refuses() -> None:
    recorded = (await assemble(request("ranker"), print, Servers(print))).manifest
    ranker = recorded.resources["ranker"] | {"identity": "logistic@0"}
    other = recorded.model_copy(update={"resources": recorded.resources | {"ranker": ranker}})
    compared = find_system("tamu").compared
    assert differences(recorded, recorded, compared) == []
    assert differences(recorded, other, compared) == differences(other, recorded, compared) == ["ranker"]


async def test_a_dry_run_counts_no_call_for_what_a_ranker_labels() -> None:
    estimate = await dry_run(request("ranker"), Options("run"), stop=asyncio.Event(), watcher=SilentWatcher())
    assert set(estimate.tallies) == {"classify", "answer"}


async def test_an_unknown_ranker_is_told_before_anything_runs() -> None:
    with pytest.raises(
        RankerError, match="ranker 'none': folder not found; use logistic, support, bm25, similarity, "
    ):
        await assemble(request("both", ranker="none"), print, Servers(print))


def test_the_flags_replace_the_recipes_values(tmp_path: Path) -> None:
    flags = ("--evidence", "both", "--ranker", "bm25", "--dry-run", "--json", "--limit", "1")
    command = ("run", "tamu", BATCH, "--recipe", write_recipe(tmp_path), "--model", "scripted:auto", *flags)
    ended = evigraph(*command, folder=tmp_path)
    assert ended.summary["roles"]["label"]["calls"] == 3


def test_a_ranker_that_nobody_asks_is_refused(tmp_path: Path) -> None:
    ended = evigraph(*("run", "tamu", BATCH, "--ranker", "bm25", "--model", "scripted:auto"), folder=tmp_path)
    assert ended.code == 2
    assert "--ranker needs --evidence ranker, or both" in ended.err
