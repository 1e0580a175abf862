"""A run without a case to resume needs no server, and is refused for all else as before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.execute.batch import Options
from runs.execute.sessions import resume
from runs.record.folder import RunFolder
from runs.record.manifest import RunError
from serving.policy import gate
from serving.policy.policy import PolicyError
from serving.protocol.errors import ModelError
from serving.protocol.model_name import assign_roles
from tests.evigraph import edit_manifest
from tests.runs.waiting import Place, Watching

GONE = "openai:m@http://127.0.0.1:9/v1"
"""Nothing listens on port 9."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Four cases, of which two wait for a person; every model was on a server that is gone."""
    made = Place(tmp_path)
    made.start()
    of_server(made, GONE)
    yield made
    gate.release()


def of_server(place: Place, model: str) -> dict[str, Any]:
    models = RunFolder(place.run).manifest.models
    named: dict[str, Any] = {
        str(role): one.model_copy(
            update={"name": model, "revision": "r1", "constraint": "json_object", "probed": True}
        ).model_dump(mode="json")
        for role, one in models.items()
    }
    edit_manifest(place.run, models=named)
    return named


@pytest.mark.parametrize("model", [GONE, "vllm:nowhere"])
def test_a_run_whose_cases_have_ended_is_resumed_without_its_server(place: Place, model: str) -> None:
    before = of_server(place, model)
    calls = place.calls
    place.resume()
    after = RunFolder(place.run).manifest
    assert [one.command for one in after.sessions] == ["run", "resume"]
    assert {role: one.model_dump(mode="json") for role, one in after.models.items()} == before
    assert place.calls == calls


def test_a_case_with_a_review_needs_the_server(place: Place) -> None:
    place.review("k0", s1="essential")
    with pytest.raises(ModelError, match="cannot reach"):
        place.resume()


def test_a_case_that_has_not_ended_needs_the_server(place: Place) -> None:
    inputs = RunFolder(place.run).manifest.inputs.model_copy(update={"cases": 5})
    edit_manifest(place.run, inputs=inputs.model_dump(mode="json"))
    with pytest.raises(ModelError, match="cannot reach"):
        place.resume()


def test_a_retry_needs_the_server(place: Place) -> None:
    with pytest.raises(ModelError, match="cannot reach"):
        place.resume(again=True)


def resumed(place: Place, model: str | None = None) -> None:
    models = None if model is None else assign_roles([model], {})
    options = Options("resume")
    session = resume(place.run, options, recipe=None, models=models, stop=asyncio.Event(), watcher=Watching())
    asyncio.run(session)


def test_changed_cases_recipes_and_models_are_refused(place: Place) -> None:
    with pytest.raises(RunError, match="changed since this run began: model of answer"):
        resumed(place, "openai:other@http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match="no such file"):
        resumed(place, "scripted:nowhere.jsonl")
    resumed(place, "openai:m@http://127.0.0.1:11/v1")
    moved = RunFolder(place.run).manifest.models["label"]
    assert (moved.name, moved.revision) == ("openai:m@http://127.0.0.1:11/v1", "r1")
    cases = (place.folder / "cases.jsonl").read_text()
    (place.folder / "cases.jsonl").write_text(cases.replace("Why was it done", "Why was it not done"))
    with pytest.raises(RunError, match="changed since this run began: case"):
        resumed(place)
    (place.folder / "cases.jsonl").write_text(cases)
    place.recipe.write_text(place.recipe.read_text().replace("threshold: 2", "threshold: 1"))
    with pytest.raises(
        RunError, match=r"differs from the one that this run began with in: evidence\.threshold"
    ):
        resumed(place)


@pytest.mark.parametrize("model", ["openai:m@http://gpu.example.org/v1", "openai:m"])
def test_what_a_policy_forbids_is_refused(place: Place, model: str) -> None:
    of_server(place, model)
    (place.folder / "policy.yaml").write_text("name: ours\nhosts: [loopback]\n")
    before = (place.run / "run.json").read_bytes()
    with pytest.raises(PolicyError, match="policy 'ours'"):
        resumed(place)
    assert (place.run / "run.json").read_bytes() == before
