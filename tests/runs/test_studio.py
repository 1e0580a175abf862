"""`langgraph dev` opens every system, and a graph runs there from plain strings."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from graph.system import systems
from runs.execute import studio
from runs.execute.studio import StudioContext
from storage.errors import InputError
from tests.evigraph import write_recipe

ROOT = Path(__file__).parents[2]


def test_every_system_is_listed_and_is_a_graph() -> None:
    listed = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert sorted(listed) == systems()
    for name, place in listed.items():
        file, _, attribute = place.partition(":")
        module = importlib.import_module(file.removeprefix("./").removesuffix(".py").replace("/", "."))
        assert getattr(module, attribute).name == name


async def test_a_sample_case_runs_from_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    context = StudioContext(model="scripted:auto", recipe=str(write_recipe(tmp_path)))
    state = await vars(studio)["tamu"].ainvoke({"case_id": "103"}, context=context)
    assert state["answer"]
    assert state["usable_votes"] == 3
    context.client.journal.close()


async def test_a_question_of_bioasq_runs_with_the_others_as_its_shots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = StudioContext(model="scripted:auto", recipe="bioasq")
    case_id = next(iter(context.cases))
    state = await vars(studio)["bioasq"].ainvoke({"case_id": case_id}, context=context)
    assert state["answer"]
    assert any("1 shot" in one["because"] for one in state["decisions"])
    context.client.journal.close()


def test_an_unknown_case_is_named_with_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = StudioContext(model="scripted:auto", recipe=str(write_recipe(tmp_path)))
    with pytest.raises(InputError, match=r"the samples of tamu: no case '1011'. did you mean '101'\?"):
        context.cases["1011"]
    with pytest.raises(InputError, match=r"no case 'zzz'. known: 101, 102, 103, 104, 105, \.\.\."):
        context.cases["zzz"]
    assert not hasattr(context, "no_attribute_of_nodes")
    context.client.journal.close()
