"""What corpora of growing size cost, and what that says of 20 million documents."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases.documents import Document
from cases.files import write_atomically
from evals.bench.abstracts import questions, repeated, write_abstracts
from evals.bench.catalogue import Report
from evals.bench.corpus_plot import draw
from evals.bench.result import BenchError

AIM = 20_000_000
QUANTITIES = ("processor_seconds", "peak_mb", "disk_bytes", "query_processor_ms")
_QUESTIONS = 100
# Small, so that the smaller sizes show already what many parts cost.
_PART_SIZE = 10_000


def curve(base: Sequence[Document], sizes: Sequence[int], path: Path, report: Report) -> dict[str, Any]:
    """Build and ask a corpus of each size in a process of its own; draw the figures at `path`.

    Raises:
        BenchError: A build failed.
        InputError: The drawing cannot be written.
    """
    rows = []
    for size in sizes:
        report(f"building and asking {size:,} documents")
        rows.append(_measured(base, size))
        report(", ".join(f"{name} {value:,}" for name, value in rows[-1].items()))
    further = extrapolated(rows)
    write_atomically(path, [draw(rows, further, AIM).encode()])
    return {"part_size": _PART_SIZE, "measured": rows, "at": AIM, "extrapolated": further}


def extrapolated(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each quantity its growth between the two largest sizes, and what it comes to at `AIM`.

    `exponent` is that of the size: 1 where the quantity grows as the size does. `by_exponent` goes on in the
    same way; `linear` lets it grow with the size from the largest corpus on.
    """
    smaller, larger = rows[-2:]
    growth = larger["documents"] / smaller["documents"]
    further = AIM / larger["documents"]
    found = {}
    for name in QUANTITIES:
        exponent = math.log(larger[name] / smaller[name]) / math.log(growth)
        found[name] = {
            "exponent": round(exponent, 3),
            "by_exponent": _rounded(larger[name] * further**exponent),
            "linear": _rounded(larger[name] * further),
        }
    return found


def _rounded(value: float) -> float:
    """Three significant figures: an extrapolation has no more."""
    return float(f"{value:.3g}")


def _measured(base: Sequence[Document], size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="evigraph-bench-") as name:
        folder = Path(name)
        source = write_abstracts(folder / "documents.jsonl", repeated(base, size))
        asked = folder / "questions.json"
        asked.write_text(json.dumps(questions(base, _QUESTIONS)), "utf-8")
        command = [sys.executable, "-m", "evals.bench.corpus_run"]
        command += [str(source), str(folder / "corpus"), str(_PART_SIZE), str(asked)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
    if ended.returncode != 0:
        raise BenchError(f"the measured build ended with code {ended.returncode}")
    measured: dict[str, Any] = json.loads(ended.stdout)
    return measured
