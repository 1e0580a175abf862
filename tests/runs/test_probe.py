"""What a run finds out of a server at its start is used, told, and kept."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs.execute.assemble import _probe_roles
from runs.record.manifest import Model
from serving.backends import connect
from serving.protocol.limits import Limits
from serving.protocol.model_name import Role, parse_model_name
from tests.evigraph import COMMAND, Ended, evigraph
from tests.serving.fake_abilities import Abilities
from tests.serving.fake_server import MODEL, FakeServer, Refuse


def run(folder: Path, recipe: Path, model: str, *more: str) -> Ended:
    return evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--model", model, "--limit", "2"),
        *("--out", "run", "--json", "--max-retries", "0", *more),
        folder=folder,
    )


def label_model(folder: Path) -> dict[str, Any]:
    models: dict[str, Any] = json.loads((folder / "run" / "run.json").read_text())["models"]
    return dict(models["label"])


def test_a_server_is_probed_once_for_all_roles_and_used_as_found(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer
) -> None:
    server.abilities = Abilities(obeys=frozenset({"json_schema"}), refuses=frozenset({"logprobs"}))
    ended = run(tmp_path, recipe, f"vllm:{MODEL}@{server.url}")
    assert ended.code == 0
    assert "schema json_schema, n yes, seed not tried, logprobs no" in ended.err
    found = label_model(tmp_path)
    assert (found["constraint"], found["many_samples"], found["logprobs"]) == ("json_schema", True, False)
    assert found["probed"] and found["takes_seed"] is None
    assert all("structured_outputs" not in body for body in server.chats)
    assert any("response_format" in body for body in server.chats)


def test_without_the_probe_no_request_is_made_for_it(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer
) -> None:
    assert run(tmp_path, recipe, f"vllm:{MODEL}@{server.url}", "--no-probe").code == 0
    assert server.probes == []
    assert not label_model(tmp_path)["probed"]


def test_a_dead_server_ends_the_command_before_a_run_begins(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer
) -> None:
    server.abilities = Abilities(status=500)
    ended = run(tmp_path, recipe, f"vllm:{MODEL}@{server.url}")
    assert ended.code == 2
    assert "does not answer a small request" in ended.line
    assert server.chats == [] and not (tmp_path / "run").exists()


def test_one_failure_at_the_start_does_not_end_the_command(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer
) -> None:
    server.abilities = Abilities(status=500, sick_for=1)
    ended = run(tmp_path, recipe, f"vllm:{MODEL}@{server.url}", "--max-retries", "1")
    assert (ended.code, ended.summary["done"]) == (0, 2)
    assert "small request 1 of 2 failed" in ended.err


def test_a_sick_server_of_two_does_not_end_the_command(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer
) -> None:
    sick = FakeServer(models=server.models, default=Refuse(500), abilities=Abilities(status=500))
    sick.start()
    try:
        ended = run(tmp_path, recipe, f"vllm:{MODEL}@{server.url},{sick.url}")
    finally:
        sick.stop()
    assert (ended.code, ended.summary["done"]) == (0, 2)
    assert f"server {sick.url} does not answer a small request" in ended.err


@pytest.mark.parametrize("status", [200, 500])
def test_what_ends_before_the_first_case_leaves_no_connection_open(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer, status: int
) -> None:
    server.abilities = Abilities(status=status)
    (tmp_path / "prices.yaml").write_text("models: {}")
    given = (
        *("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--out", "run", "--max-retries", "0"),
        *("--max-cost", "1", "--prices", "prices.yaml"),
    )
    # A new process: a forked one ends without checking for open resources.
    ended = subprocess.run(
        [*COMMAND, *given, "--model", f"vllm:{MODEL}@{server.url}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = "no price for" if status == 200 else "does not answer a small request"
    assert (ended.returncode, said in ended.stderr) == (2, True)
    assert "Unclosed" not in ended.stderr


@pytest.mark.parametrize("repeats", [True, False])
def test_a_run_that_goes_on_sends_a_seed_or_none_as_it_began(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer, repeats: bool
) -> None:
    server.abilities = Abilities(repeats=repeats)
    server.plan(*[Refuse(400, "not now")] * 2)
    assert run(tmp_path, recipe, f"openai:{MODEL}@{server.url}", "--concurrency", "1").code == 1
    begun = len(server.chats)
    server.abilities = Abilities(repeats=not repeats)
    ended = evigraph("retry", "run", "--json", folder=tmp_path)
    assert (ended.code, ended.summary["done"]) == (0, 2)
    assert len(server.chats) > begun > 0
    assert {"seed" in body for body in server.chats} == {repeats}
    assert label_model(tmp_path)["takes_seed"] is repeats


@pytest.mark.parametrize("known", [True, False])
async def test_a_run_that_recorded_no_seed_keeps_what_its_provider_is_known_for(known: bool) -> None:
    backend = replace(connect(parse_model_name("scripted:auto")), takes_seed=known)
    recorded: dict[Role, Model] = {"label": Model(name="scripted:auto")}
    backends, _ = await _probe_roles({"label": backend}, True, recorded, print, Limits())
    assert backends["label"].takes_seed is known
