"""The benchmarks of corpora and of indexes: what they make, compare and extrapolate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import SUITE, corpus
from benchmarks.abstracts import base_documents, questions, repeated
from benchmarks.corpus import AIM, extrapolated
from benchmarks.index import Copies, run
from evals.bench.benchmark import BenchError
from evals.bench.benchmark import run as run_benchmark
from retrieval.embeddings import normalise

QUANTITIES = ("processor_seconds", "peak_mb", "disk_bytes", "query_processor_ms")


def row(size: int, value: float) -> dict[str, float]:
    return {"documents": size, **dict.fromkeys(QUANTITIES, value)}


def test_copies_differ_and_the_first_round_does_not() -> None:
    base = base_documents(None)
    documents = list(repeated(base, 60))
    assert documents[:24] == base
    assert len({document.id for document in documents}) == 60
    assert len({document.text for document in documents}) == 60
    assert documents == list(repeated(base, 60))


def test_questions_are_as_many_as_asked() -> None:
    assert len(questions(base_documents(None), 100)) == 100


def test_both_sides_rank_alike() -> None:
    options = corpus.Options(documents=120, queries=20, repeats=1)
    details = corpus.measure(options, lambda text: None).details
    assert details["same_up_to_equal_scores"] == 20
    assert details["same_ranking"] >= 18


def test_another_ranking_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "K1", 3.0)
    with pytest.raises(BenchError, match="the rankings differ"):
        corpus.measure(corpus.Options(documents=120, queries=20, repeats=1), lambda text: None)


def test_extrapolation_goes_on_as_the_last_two_sizes_did() -> None:
    found = extrapolated([row(10, 99), row(1000, 4), row(100_000, 40)])["peak_mb"]
    assert found["exponent"] == 0.5
    assert found["by_exponent"] == pytest.approx(40 * (AIM / 100_000) ** 0.5, rel=0.01)
    assert found["linear"] == pytest.approx(40 * AIM / 100_000)


def real() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return normalise(np.random.default_rng(3).standard_normal((50, 16)).astype(np.float32) + 0.5)


def test_both_sides_encode_the_same_texts() -> None:
    result = run_benchmark("index", {}, tiny=True, report=lambda text: None, suite=SUITE)
    assert result.value > 0
    assert result.details["documents"] == 48


def test_copies_follow_the_real_vectors_and_are_the_same_every_time() -> None:
    copies = Copies(real())
    assert np.array_equal(copies.rows(0, 50), real())
    moved = copies.rows(50, 50)
    assert np.array_equal(moved, copies.rows(50, 50))
    cosines = np.sum(moved * real(), axis=1)
    assert 0.6 < cosines.mean() < 0.97
    assert np.allclose(np.linalg.norm(moved, axis=1), 1, atol=1e-5)


def test_a_row_tells_cost_and_recall(tmp_path: Path) -> None:
    np.save(tmp_path / "base.npy", real())
    rows = [run(tmp_path / "base.npy", "numpy", size, tmp_path / str(size)) for size in (120, 240)]
    assert [row["vectors"] for row in rows] == [120, 240]
    assert rows[1]["recall@100"] == 1.0
    assert rows[1]["disk_bytes"] == 240 * (4 * 16 + 8)
