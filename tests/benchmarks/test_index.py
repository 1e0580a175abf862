"""The benchmark of indexes measures what it says, in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import SUITE
from benchmarks.index import Copies, run
from evals.bench.benchmark import run as run_benchmark
from retrieval.embeddings import normalise


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
