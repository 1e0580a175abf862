"""`langgraph dev` opens every system, and a graph runs there from plain strings."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from graph.systems import systems
from runs.studio import StudioContext, tamu
from tests.evigraph import write_recipe

ROOT = Path(__file__).parents[2]


def test_every_system_is_listed_and_is_a_graph() -> None:
    listed = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    # A corpus, an index or a file of shots cannot be named in plain strings that every graph shares.
    assert sorted([*listed, "timeaware", "bioasq"]) == systems()
    for name, place in listed.items():
        file, _, attribute = place.partition(":")
        module = importlib.import_module(file.removeprefix("./").removesuffix(".py").replace("/", "."))
        assert getattr(module, attribute).name == name


async def test_a_sample_case_runs_from_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    context = StudioContext(model="scripted:auto", recipe=str(write_recipe(tmp_path)))
    state = await tamu.ainvoke({"case_id": "103"}, context=context)
    assert state["answer"]
    assert state["usable_votes"] == 3
    context.client.journal.close()
