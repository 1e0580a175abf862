"""The measured process of the curve: `python -m evals.bench.corpus_run SOURCE FOLDER PART_SIZE QUESTIONS`.

It builds a corpus, asks it, and prints what that took. Peak memory is that of the build.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from evals.bench.resources import peak_mb, processor_seconds
from retrieval.corpus.build import BuildOptions, build
from retrieval.corpus.corpus import Corpus

_FOUND = 20


def run(source: Path, folder: Path, part_size: int, questions: Path) -> dict[str, Any]:
    """Build and ask; seconds, MB of 2^20 bytes, bytes."""
    begin, processor = time.perf_counter(), processor_seconds()
    built = build([source], folder, BuildOptions(part_size=part_size))
    measured = {
        "documents": built.manifest.tally.documents,
        "parts": built.manifest.parts,
        "terms": built.manifest.terms,
        "postings": built.manifest.postings,
        "seconds": round(time.perf_counter() - begin, 2),
        "processor_seconds": round(processor_seconds() - processor, 2),
        "peak_mb": round(peak_mb(), 1),
        "disk_bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
    }
    corpus = Corpus.open(folder)
    asked = json.loads(questions.read_text("utf-8"))
    for question in asked[:5]:
        corpus.search(question, _FOUND)
    begin, processor = time.perf_counter(), processor_seconds()
    for question in asked:
        corpus.search(question, _FOUND)
    measured["query_ms"] = round(1000 * (time.perf_counter() - begin) / len(asked), 3)
    measured["query_processor_ms"] = round(1000 * (processor_seconds() - processor) / len(asked), 3)
    return measured


if __name__ == "__main__":
    source, folder, part_size, questions = sys.argv[1:]
    sys.stdout.write(json.dumps(run(Path(source), Path(folder), int(part_size), Path(questions))) + "\n")
