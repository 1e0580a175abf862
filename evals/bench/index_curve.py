"""What stores of vectors cost by their size, and how much each finds."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cases.files import write_atomically
from evals.bench.catalogue import Report
from evals.bench.index_plot import draw
from evals.bench.result import BenchError
from retrieval.embeddings import Vectors

STORES = ("numpy", "numpy int8", "chroma", "qdrant")
LARGEST_LOCAL_QDRANT = 5_000
"""Qdrant's local mode compares every vector in Python, and waits for the disk at each one that it stores."""


def curve(vectors: Vectors, sizes: Sequence[int], path: Path, report: Report) -> dict[str, Any]:
    """Fill and ask each store at each size, in a process of its own; draw the figures at `path`.

    Raises:
        BenchError: A measured process failed.
        InputError: The drawing cannot be written.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        base = Path(name) / "base.npy"
        np.save(base, vectors)
        for size in sizes:
            for store in STORES:
                if store == "qdrant" and size > LARGEST_LOCAL_QDRANT:
                    continue
                report(f"{store}: storing and asking {size:,} vectors")
                rows.append(_measured(base, store, size))
                report(", ".join(f"{key} {value}" for key, value in rows[-1].items()))
    write_atomically(path, [draw(rows).encode()])
    return {"real_vectors": len(vectors), "measured": rows}


def _measured(base: Path, store: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        command = [sys.executable, "-m", "evals.bench.index_run", str(base), store, str(size), name]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
    if ended.returncode != 0:
        raise BenchError(f"the measured process of {store} ended with code {ended.returncode}")
    measured: dict[str, Any] = json.loads(ended.stdout)
    return measured
