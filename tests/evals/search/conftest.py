"""A real corpus of invented abstracts, and claims about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cases.documents import Document
from retrieval.corpus.build import BuildOptions, build
from retrieval.protocols import Hit

TOPICS = ("heparin", "mint", "honey", "ginger")
DOCUMENTS = [
    {
        "id": f"{topic}{number}",
        "title": f"On {topic}",
        "text": f"Study {number} of {topic} {'again ' * number}.",
    }
    for topic in TOPICS
    for number in range(8)
]
CLAIMS = [
    {"id": 1, "claim": "Mint study", "cited_doc_ids": ["mint1", "mint2"]},
    {"id": 2, "claim": "Honey study", "cited_doc_ids": ["honey7", "gone"]},
    {"id": 3, "claim": "Ginger\n study", "cited_doc_ids": ["heparin0"]},
    {"id": 4, "claim": "Nothing is cited", "cited_doc_ids": []},
    {"id": 5, "claim": "Only what is gone", "cited_doc_ids": ["gone"]},
]


def write_lines(path: Path, lines: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    build([write_lines(folder / "documents.jsonl", DOCUMENTS)], folder / "corpus", BuildOptions())
    return folder / "corpus"


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "claims.jsonl", CLAIMS)


@dataclass(frozen=True)
class Backwards:
    """An index that finds all documents, the last one first."""

    identity: str = "backwards@1"

    def __len__(self) -> int:
        return len(DOCUMENTS)

    async def asearch(self, query: str, k: int) -> list[Hit]:
        found = [Document(one["id"], one["title"], one["text"]) for one in reversed(DOCUMENTS)]
        return [Hit(rank, 1 / rank, one) for rank, one in enumerate(found[:k], 1)]
