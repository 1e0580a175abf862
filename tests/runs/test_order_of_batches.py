"""The order in which a batch asks, as a server sees it, and that results do not depend on it."""

from __future__ import annotations

import asyncio
from itertools import groupby
from pathlib import Path

import pytest

from graph.recipe import make_recipe
from runs.execute.assemble import Assembly, Request
from runs.execute.batch import Options
from runs.execute.sessions import start
from runs.execute.watcher import SilentWatcher
from runs.record.folder import CASES
from serving.protocol.model_name import assign_roles
from tests.serving.fake_server import MODEL, FakeServer

SAMPLES = Path(__file__).parents[2] / "cases" / "samples" / "batch.xml"


async def run(out: Path, model: str) -> None:
    """The sample cases one after the other, with two demonstrations each."""
    recipe = make_recipe(
        {
            "system": "tamu",
            "embedding": "lexical:256",
            "stop_after": "evidence",
            "evidence": {"demonstrations": 2, "votes": 1, "threshold": 1, "reflection": False},
        },
        "test",
    )
    request = Request(recipe, "test", (SAMPLES,), (), assign_roles([model], {}))
    options = Options("run", concurrency=1, probe=False)
    await start(request, out, options, stop=asyncio.Event(), watcher=SilentWatcher())


def changes(server: FakeServer) -> tuple[int, int]:
    """How often the first demonstration changes from one request to the next, and how many there are."""
    first = [body["messages"][1]["content"] for body in server.chats]
    return len(list(groupby(first))) - 1, len(set(first))


async def test_requests_are_grouped_by_their_demonstrations(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(tmp_path / "ordered", f"vllm:{MODEL}@{server.url}")
    changed, different = changes(server)
    assert changed == different - 1
    server.received.clear()
    monkeypatch.setattr(Assembly, "case_keys", None)
    await run(tmp_path / "unordered", f"vllm:{MODEL}@{server.url}")
    changed, different = changes(server)
    assert changed > different - 1
    results = [(tmp_path / name / CASES).read_bytes() for name in ("ordered", "unordered")]
    assert results[0] == results[1]
