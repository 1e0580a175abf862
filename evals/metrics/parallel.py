"""Scores of many pairs by many metrics, the slow ones in Python over all processors."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evals.metrics.bleu import Bleu
from evals.metrics.rouge import Rouge
from evals.metrics.sari import Sari
from evals.metrics.text_metric import TextMetric, TextPair

_ENOUGH_PAIRS = 500
"""Below, starting processes costs more than they save: half a second, the time of about 500 pairs."""

_CHUNK = 250


class _Work(NamedTuple):
    metrics: Sequence[TextMetric]
    pairs: Sequence[TextPair]


def score_texts(metrics: Sequence[TextMetric], pairs: Sequence[TextPair]) -> dict[str, list[float]]:
    """Score all pairs by all metrics.

    Metrics with a model run here, in batches. BLEU, ROUGE and SARI run in a process for each processor where
    there are many pairs; the scores are the same, and in the order of the pairs. Processes are started anew
    and not forked, as a fork could inherit locks of the model's threads: a script that calls this has to
    guard its main part by `if __name__ == "__main__":`.

    Returns:
        By the names of the metrics, a score for each pair.
    """
    spread = [metric for metric in metrics if isinstance(metric, Bleu | Rouge | Sari)]
    scores: dict[str, list[float]] = {}
    for chunk in _spread(spread, pairs):
        for name, values in chunk.items():
            scores.setdefault(name, []).extend(values)
    scores |= _score(_Work([metric for metric in metrics if metric not in spread], pairs))
    return {name: scores.get(name, []) for metric in metrics for name in metric.names}


def _spread(metrics: Sequence[TextMetric], pairs: Sequence[TextPair]) -> Iterator[dict[str, list[float]]]:
    workers = min(processors(), len(pairs) // _CHUNK)
    if len(pairs) <= _ENOUGH_PAIRS or workers < 2 or not metrics:
        yield _score(_Work(metrics, pairs))
        return
    chunks = (_Work(metrics, pairs[start : start + _CHUNK]) for start in range(0, len(pairs), _CHUNK))
    # A pool, since leaving it ends its processes: an executor would wait for them after an interrupt.
    # Ctrl-C reaches them too; it is this process that ends on it.
    ignore_interrupts = (signal.SIGINT, signal.SIG_IGN)
    with multiprocessing.get_context("spawn").Pool(workers, signal.signal, ignore_interrupts) as pool:
        yield from pool.imap(_score, chunks)


def _score(work: _Work) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = {}
    for metric in work.metrics:
        rows = metric.score(work.pairs)
        scores |= {name: [row[column] for row in rows] for column, name in enumerate(metric.names)}
    return scores


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
