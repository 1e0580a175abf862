"""`evigraph retrieval` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evigraph import evigraph

LINES = [
    {"id": "1", "query": "heparin", "sentences": ["Heparin was stopped.", "Diet."], "labels": [True, False]},
    {"id": "2", "query": "diet", "sentences": ["Heparin was given.", "Diet."], "labels": [False, True]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def test_plain_examples_are_scored_and_drawn(data: Path, tmp_path: Path) -> None:
    ended = evigraph(
        *("retrieval", str(data), "--retriever", "bm25", "--html", "page.html", "--json"), folder=tmp_path
    )
    assert ended.summary["examples"] == 2
    assert ended.summary["query"] is None
    best = next(row for row in ended.summary["tables"]["strategies"] if row["name"] == "autocut*")
    assert best["values"]["F1"]["value"] == 100
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cutoff", "surprize"), "no cut-off"),
        (("--acronyms", "none.yaml"), "cannot be read"),
        (("--retriever", "similarity:nowhere"), "no encoder at 'nowhere'"),
    ],
)
def test_what_is_wrong_is_told(data: Path, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    ended = evigraph("retrieval", str(data), *options, folder=tmp_path)
    assert ended.code == 2
    assert words in ended.err
