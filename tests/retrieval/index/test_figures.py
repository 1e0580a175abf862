"""Reports of an index in addition to its hits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.vectors import Vectors
from retrieval.corpus.build import BuildOptions, build
from retrieval.corpus.corpus import Corpus
from retrieval.index.figures import measure, questions, shares
from retrieval.index.store import VectorStore
from retrieval.protocols import Found


def nearest(numbers: list[int], similarities: list[float]) -> Found:
    return Found(np.array(numbers), np.array(similarities, dtype=np.float32))


def test_recall_is_the_share_that_was_found() -> None:
    wanted = nearest([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.6])
    found = nearest([1, 3, 4, 9], [0.9, 0.7, 0.6, 0.1])
    assert shares([wanted, wanted], [wanted, found]) == {10: 0.875, 100: 0.875}


def test_an_equal_of_the_last_one_is_no_miss() -> None:
    assert shares([nearest([1, 2], [0.9, 0.8])], [nearest([1, 7], [0.9, 0.8])])[10] == 1.0


@pytest.mark.parametrize("kind", ["numpy", "qdrant"])
def test_exact_stores_miss_nothing(kind: str, stores: dict[str, VectorStore], queries: Vectors) -> None:
    assert measure(stores[kind], queries).recall == {10: 1.0, 100: 1.0}


def test_questions_are_titles_or_beginnings_spread_over_the_corpus(tmp_path: Path) -> None:
    lines = [{"id": str(number), "title": f"On {number}", "text": "So. It is."} for number in range(9)]
    lines[4]["title"] = ""
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    build([tmp_path / "some.jsonl"], tmp_path / "corpus", BuildOptions())
    corpus = Corpus.open(tmp_path / "corpus")
    assert questions(corpus, 2) == ["On 0", "So"]
    assert len(questions(corpus, 5)) == 5
    assert questions(corpus, 20)[-1] == "On 8"
