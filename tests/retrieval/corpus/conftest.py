"""Small corpora, built as a user builds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from retrieval.corpus.build import BuildOptions, build
from retrieval.corpus.corpus import Corpus

SAMPLE = Path(__file__).parents[3] / "cases" / "samples" / "health" / "literature.jsonl"

Build = Callable[..., Corpus]


def write_documents(path: Path, documents: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")
    return path


@pytest.fixture
def built(tmp_path: Path) -> Build:
    """Builds a corpus of the given files, of the invented abstracts without any."""

    def make(*files: Path, name: str = "corpus", **options: Any) -> Corpus:
        build(files or [SAMPLE], tmp_path / name, BuildOptions(**options))
        return Corpus.open(tmp_path / name)

    return make
