"""One process that trains and scores what it is given, one job after the other."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Literal, NamedTuple

from evals.studies.baselines import make_baseline
from evals.studies.jobs import Job, scores_file
from evals.studies.measures import write_scores
from ranking.examples import Example
from ranking.ranker import Ranker, Scores

if TYPE_CHECKING:
    from ranking.training.progress import TrainingProgress, TrainingWatcher

_QUERIES_AT_ONCE = 16
_REPORT_EVERY_S = 1.0


class Interrupted(Exception):
    """Somebody asked the process to stop; what is finished stays."""


class Report(NamedTuple):
    """What a worker says.

    Attributes:
        kind: `progress` and `notice` while it works; `done` or `failed` once at the end of a job, or
            `stopped`.
        text: One line.
        share: Of the phase that is done, from 0 to 1; of `progress`.
        seconds_left: Of the phase; of `progress`.
    """

    kind: Literal["progress", "notice", "done", "failed", "stopped"]
    text: str = ""
    share: float = 0.0
    seconds_left: float | None = None


class _Reporter:
    """A watcher of trainings that sends a line a second."""

    def __init__(self, send: Callable[[Report], None]) -> None:
        self._send = send
        self._last = 0.0
        self._begin: tuple[str, int, float] | None = None

    def update(self, progress: TrainingProgress) -> None:
        """Send where the training is."""
        now = time.monotonic()
        if now - self._last < _REPORT_EVERY_S and progress.step < progress.steps:
            return
        self._last = now
        text = (
            f"{progress.phase} epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.4f},"
            f" {progress.pairs_per_second:.0f} pairs/s"
        )
        share = progress.step / max(progress.steps, 1)
        self._send(Report("progress", text, share, self._seconds_left(progress, now)))

    def _seconds_left(self, progress: TrainingProgress, now: float) -> float | None:
        """Of the phase, at the speed since its first report; None at that."""
        if self._begin is None or self._begin[0] != progress.phase:
            self._begin = (progress.phase, progress.step, now)
        _, first, began = self._begin
        done = progress.step - first
        return (now - began) / done * (progress.steps - progress.step) if done else None

    def notify(self, text: str) -> None:
        """Send it."""
        self._send(Report("notice", text))


def serve(connection: Connection, threads: int) -> None:
    """Work until stopped: the target of a process.

    Args:
        connection: Gives jobs, None at the end; takes reports.
        threads: Of this process's matrix products.
    """
    # The parent ends us; a key press at the terminal reaches all processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    torch.set_num_threads(threads)
    try:
        while not stopped and (job := connection.recv()) is not None:
            connection.send(attempt(job, connection.send, lambda: stopped))
    except (EOFError, ConnectionError):
        # The parent was killed; what was saved last is what the next start goes on from.
        return


def attempt(job: Job, send: Callable[[Report], None], stopping: Callable[[], bool]) -> Report:
    """Do a job; the report says how it ended. Only a parent that is gone raises."""
    from ranking.training.loop import TrainingInterrupted

    try:
        do_job(job, send, stopping)
    except (Interrupted, TrainingInterrupted) as error:
        return Report("stopped", str(error))
    except ConnectionError:
        raise
    except Exception as error:
        # One training that cannot be done must not end the others.
        return Report("failed", f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Report("done")


def do_job(job: Job, send: Callable[[Report], None], stopping: Callable[[], bool]) -> None:
    """Train, or go on, or open what is trained; then score the sets that have no scores.

    Raises:
        RankerError: The training cannot be done.
        TrainingInterrupted, Interrupted: `stopping` said so.
    """
    ranker = _ranker(job, _Reporter(send), stopping)
    for name in job.missing:
        examples = job.sets[name]
        scores: list[tuple[str, Scores]] = []
        for number, part in enumerate(_same_document(examples)):
            if stopping():
                raise Interrupted("interrupted while scoring")
            if number % 20 == 0:
                send(Report("progress", f"scoring {name}", len(scores) / max(len(examples), 1)))
            scores += list(zip((one.id for one in part), _scores(ranker, part), strict=True))
        ids, values = zip(*scores, strict=True)
        write_scores(scores_file(job.scores, name), ids, values)


def _ranker(job: Job, watcher: TrainingWatcher, stopping: Callable[[], bool]) -> Ranker:
    if job.baseline is not None:
        return make_baseline(job.baseline, job.train, job.seed)
    assert job.recipe is not None
    from ranking.checkpoint import MANIFEST
    from ranking.neural import NeuralRanker
    from ranking.training.job import WORKPLACE, TrainingData, TrainingJob
    from ranking.training.train import train

    if not (job.ranker / MANIFEST).is_file():
        begun = (job.ranker / WORKPLACE / "job.json").is_file()
        if not begun:
            # Left by a process that died before its training began.
            shutil.rmtree(job.ranker, ignore_errors=True)
        train(
            TrainingJob(name=job.row, recipe=job.recipe),
            TrainingData([*job.train, *job.tuning], job.pretraining),
            job.ranker,
            resume=begun,
            watcher=watcher,
            stopping=stopping,
        )
    # As the training multiplied, and twice as fast.
    return NeuralRanker.open(job.ranker, job.recipe.precision)


def _same_document(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples that are scored together."""
    groups: dict[tuple[str, tuple[str, ...]], list[list[Example]]] = {}
    for example in examples:
        parts = groups.setdefault((example.document_id, example.sentences), [[]])
        if len(parts[-1]) == _QUERIES_AT_ONCE:
            parts.append([])
        parts[-1].append(example)
    return [part for parts in groups.values() for part in parts]


def _scores(ranker: Ranker, examples: Sequence[Example]) -> list[Scores]:
    from ranking.neural import NeuralRanker

    sentences = examples[0].sentences
    if isinstance(ranker, NeuralRanker):
        return [ranked.scores for ranked in ranker.rank_many([one.query for one in examples], sentences)]
    return [ranker.rank(one.query, sentences).scores for one in examples]
