"""Runs whose evidence a model, a ranker or both have voted on, from start to what is read of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cases.selection import Selection
from evals.analysis.report import analyse
from evals.bench.workload import Silent
from evals.frames.tables import NamedRun, export
from evals.scoring.gold import gold_of_run
from graph.recipe import make_recipe
from graph.system import find_system
from ranking.errors import RankerError
from runs import RunFolder
from runs.estimate.dry_run import dry_run
from runs.execute.assemble import Request, assemble
from runs.execute.batch import Options
from runs.execute.servers import Servers
from runs.execute.sessions import start
from runs.record.manifest import differences
from serving.protocol.model_name import assign_roles
from tests.evigraph import evigraph, write_recipe

BATCH = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))
VOTERS = ("llm", "ranker", "both")
Runs = Mapping[str, RunFolder]


def request(voters: str, **evidence: Any) -> Request:
    values = {"voters": voters, "ranker": "bm25", "demonstrations": 1, "votes": 3, "threshold": 2, **evidence}
    recipe = make_recipe({"system": "tamu", "embedding": "lexical:256", "evidence": values}, "r")
    models = assign_roles(["scripted:auto"], {})
    return Request(recipe, "r", (BATCH,), (), models, selection=Selection(limit=3))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("rankers")

    async def run(voters: str) -> RunFolder:
        return await start(
            request(voters), folder / voters, Options("run"), stop=asyncio.Event(), watcher=Silent()
        )

    return {voters: asyncio.run(run(voters)) for voters in VOTERS}


@pytest.mark.parametrize(("voters", "votes", "own"), [("llm", 3, 2), ("ranker", 1, 1), ("both", 4, 2)])
def test_thresholds_of_every_kind_are_swept(runs: Runs, voters: str, votes: int, own: int) -> None:
    found = analyse(runs[voters], gold_of_run(runs[voters]))
    assert (found.votes, found.threshold, len(found.by_threshold)) == (votes, own, votes)
    assert found.by_threshold[own - 1].strict_micro == found.by_setting[0].strict_micro
    if voters == "ranker":
        assert (found.agreement, found.reflection) == (None, None)
    else:
        assert found.agreement is not None
        assert found.reflection is not None
        assert found.reflection.after is not None
        assert found.reflection.after.strict_micro == found.by_setting[0].strict_micro


@pytest.mark.parametrize("voters", VOTERS)
def test_votes_of_every_kind_are_exported_and_add_up(runs: Runs, voters: str, tmp_path: Path) -> None:
    found = runs[voters]
    export([NamedRun(voters, found, gold_of_run(found))], tmp_path)
    votes = [row for row in _table(tmp_path, "votes") if row["case_id"] == "101"]
    line = found.require_case("101")
    counted = dict.fromkeys(line["labels"], 0)
    for row in votes:
        counted[row["sentence_id"]] += row["essential_after"]
    assert counted == line["vote_counts"]
    assert {row["voter"] for row in votes} == ({"llm", "ranker"} if voters == "both" else {voters})
    scores = [row["ranker_score"] for row in _table(tmp_path, "sentences") if row["case_id"] == "101"]
    assert scores == list((line["ranker_scores"] or dict.fromkeys(line["labels"])).values())


def test_another_ranker_is_a_change_that_a_resume_refuses(runs: Runs) -> None:
    recorded = runs["ranker"].manifest
    ranker = recorded.resources["ranker"] | {"identity": "logistic@0"}
    other = recorded.model_copy(update={"resources": recorded.resources | {"ranker": ranker}})
    compared = find_system("tamu").compared
    assert differences(recorded, recorded, compared) == []
    assert differences(recorded, other, compared) == differences(other, recorded, compared) == ["ranker"]


async def test_a_dry_run_counts_no_call_for_what_a_ranker_labels() -> None:
    estimate = await dry_run(request("ranker"), Options("run"), stop=asyncio.Event(), watcher=Silent())
    assert set(estimate.tallies) == {"classify", "answer"}


async def test_an_unknown_ranker_is_told_before_anything_runs() -> None:
    with pytest.raises(
        RankerError, match="ranker 'none': there is no such folder; use logistic, support, bm25, similarity, "
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


def _table(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(json.dumps(pq.read_table(folder / f"{name}.parquet").to_pylist()))
    return rows
