"""Benchmarks of our own code, for those who change it: `python -m benchmarks NAME` in a checkout.

Those that say something about an installation are `evigraph bench`.
"""

from __future__ import annotations

from evals.bench.benchmark import Suite

SUITE = Suite(
    "benchmarks",
    "python -m benchmarks",
    {
        "batches": "processor time of a call in a provider's batches, relative to the same call online",
        "corpus": "queries a second of a corpus, over those of rank_bm25 with the same formula; cost by size",
        "evaluation": "time of scoring a large run, relative to reading it; also other commands",
        "index": "time to build an index of vectors, relative to the bare encoder; stores by size",
        "merge": "time to merge eight shards into one run, relative to copying their files",
        "service": "status requests a second of `evigraph api`, over those of `healthz`; streams",
        "trace": "processor time of a scripted batch, over that without a trace; bytes stored a byte of text",
    },
    ("cases", "repeats", "max_connections", "data", "curve"),
)
