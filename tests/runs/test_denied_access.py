"""A key that is refused ends a run at once, with one line that names its variable; a resume goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evigraph import Ended, evigraph
from tests.serving.fake_abilities import Abilities
from tests.serving.fake_server import MODEL, FakeServer, Obey, Refuse

DENIED = Refuse(401, "Incorrect API key provided")


def run(folder: Path, recipe: Path, server: FakeServer) -> Ended:
    return evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--model", f"vllm:{MODEL}@{server.url}"),
        *("--out", "run", "--json", "--concurrency", "1"),
        folder=folder,
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_at_the_start(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer, status: int
) -> None:
    server.abilities = Abilities(status=status)
    ended = run(tmp_path, recipe, server)
    assert ended.code == 2
    assert ended.line.startswith(f"{server.url}: access denied, check VLLM_API_KEY: status {status}")
    assert server.chats == [] and not (tmp_path / "run").exists()


def test_a_key_that_is_revoked_during_a_run(
    tmp_path: Path, recipe: Path, cases: Path, server: FakeServer
) -> None:
    server.plan(*[Obey()] * 9)
    server.default = DENIED
    ended = run(tmp_path, recipe, server)
    assert ended.code == 1
    assert f"{server.url}: access denied, check VLLM_API_KEY: status 401: {DENIED.message}" in ended.line
    assert "evigraph resume run" in ended.line
    lines = (tmp_path / "run" / "cases.jsonl").read_text().splitlines()
    assert [json.loads(line)["error"] for line in lines] == [None]
    # Nothing but what was under way was asked after the first refusal.
    assert len(server.chats) <= 9 + 3

    server.default = Obey()
    resumed = evigraph("resume", "run", "--json", folder=tmp_path)
    assert (resumed.code, resumed.summary["done"], resumed.summary["failed"]) == (0, 6, 0)
    first, second = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    assert first["calls"] + second["calls"] == 6 * 8 and second["replayed"] > 0
