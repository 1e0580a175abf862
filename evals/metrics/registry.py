"""Every text metric, loaded with the user's resources, and scores of many pairs by many metrics.

A new metric is one module that ends with its `MetricSpec`, and one line in `METRICS`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Collection, Iterator, Sequence
from functools import partial

from cases.submissions.archehr import Task
from evals.metrics import align_score, bert_score, bleu, medcon, rouge, sari
from evals.metrics.text_metric import Loaded, MetricResources, MetricSpec, TextMetric, TextPair

METRICS: tuple[MetricSpec, ...] = (
    bleu.METRIC,
    rouge.METRIC,
    sari.METRIC,
    bert_score.METRIC,
    align_score.METRIC,
    medcon.METRIC,
)
"""In the order in which they are shown."""

COLUMNS = {column: name for spec in METRICS for name, column in spec.columns.items()}
"""Columns of tables of answers, and the metrics in them."""

_ENOUGH_PAIRS = 500
"""Below, starting processes costs more than they save: half a second, the time of about 500 pairs."""

_CHUNK = 250


def metrics_of(task: Task) -> list[MetricSpec]:
    """The metrics that score the texts of a task."""
    return [spec for spec in METRICS if task in spec.tasks]


def official_metrics(task: Task) -> tuple[str, ...]:
    """The metrics that a task's official scorer prints."""
    return tuple(name for spec in metrics_of(task) if spec.official for name in spec.names)


def scale_of(name: str) -> int:
    """Factor from a metric's scores to percent: 1 for metrics out of 100, such as SARI."""
    return 1 if any(name in spec.names and not spec.percent for spec in METRICS) else 100


def load_metrics(specs: Collection[MetricSpec], resources: MetricResources) -> list[Loaded]:
    """Load metrics, weights included, so that whatever is wrong shows before any scoring.

    A metric may bring a variant of itself, as MEDCON does over a user's own terms.

    Raises:
        InputError: A path lacks the expected content.
    """
    unknown = resources.keys() - {name for spec in METRICS for name in spec.resources}
    assert not unknown, f"no metric declares {unknown}"
    return [metric for spec in specs for metric in spec.load(resources)]


def score_texts(metrics: Sequence[TextMetric], pairs: Sequence[TextPair]) -> dict[str, list[float]]:
    """Score all pairs by all metrics.

    Metrics with a model run here, in batches. Those of Python alone run in a process for each processor
    where there are many pairs; the scores are the same, and in the order of the pairs. Processes are started
    anew and not forked, as a fork could inherit locks of the model's threads: a script that calls this has to
    guard its main part by `if __name__ == "__main__":`.

    Returns:
        By the names of the metrics, a score for each pair.
    """
    spread = [metric for metric in metrics if metric.spread]
    scores: dict[str, list[float]] = {}
    for chunk in _spread(spread, pairs):
        for name, values in chunk.items():
            scores.setdefault(name, []).extend(values)
    scores |= _score([metric for metric in metrics if not metric.spread], pairs)
    return {name: scores.get(name, []) for metric in metrics for name in metric.names}


def _spread(metrics: Sequence[TextMetric], pairs: Sequence[TextPair]) -> Iterator[dict[str, list[float]]]:
    workers = min(processors(), len(pairs) // _CHUNK)
    if len(pairs) <= _ENOUGH_PAIRS or workers < 2 or not metrics:
        yield _score(metrics, pairs)
        return
    chunks = (pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK))
    # A pool, since leaving it ends its processes: an executor would wait for them after an interrupt.
    # Ctrl-C reaches them too; it is this process that ends on it.
    ignore_interrupts = (signal.SIGINT, signal.SIG_IGN)
    with multiprocessing.get_context("spawn").Pool(workers, signal.signal, ignore_interrupts) as pool:
        yield from pool.imap(partial(_score, metrics), chunks)


def _score(metrics: Sequence[TextMetric], pairs: Sequence[TextPair]) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = {}
    for metric in metrics:
        rows = metric.score(pairs)
        scores |= {name: [row[column] for row in rows] for column, name in enumerate(metric.names)}
    return scores


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
