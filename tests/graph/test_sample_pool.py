"""The packaged pool of demonstrations, built in the cache by whichever process needs it first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from graph import note_resources
from graph.note_resources import open_pool
from ranking.encoding.vectors import Vectors
from retrieval.embeddings import LexicalEmbedder


class Slow(LexicalEmbedder):
    """Lets others run in the middle of a build."""

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().aembed(texts)


async def test_two_that_need_it_at_once_build_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_resources, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(note_resources, "connect_embedder", lambda _: Slow(64))
    told: list[str] = []
    one, other = await asyncio.gather(*(open_pool(None, "lexical:64", told.append) for _ in range(2)))
    assert sorted(told) == [
        "building the sample pool of demonstrations (once)",
        "waiting for the sample pool of demonstrations: another process is writing",
    ]
    assert len(one) == len(other) == 28
    assert one.folder == other.folder
