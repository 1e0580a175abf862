"""Rankings in TREC's formats, for anyone to compute the figures again, such as with ir_measures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cases.errors import InputError
from cases.files import write_atomically
from evals.search.questions import JudgedQuestion
from evals.search.rankings import Rankings
from evals.search.retrievers import Scored

QRELS = "qrels.txt"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def write_runs(folder: Path, rankings: Rankings) -> list[Path]:
    """Write `qrels.txt` and one run file a row of the tables.

    Scores in them are places counted from the end: tools put equal scores in an order of their own, and some
    round them.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(folder, f"cannot be written: {error.strerror or error}") from error
    runs: dict[str, Sequence[Sequence[Scored]]] = dict(rankings.retrieved.items())
    runs |= {f"{name}-of-{depth}": found for (name, depth), found in rankings.reranked.items()}
    written = [folder / QRELS]
    write_atomically(written[0], _qrels(rankings.questions))
    for name, found in runs.items():
        safe = _UNSAFE.sub("-", name).strip("-")
        written.append(folder / f"{safe}.run")
        write_atomically(written[-1], _run(rankings.questions, found, safe))
    return written


def _qrels(questions: Sequence[JudgedQuestion]) -> Iterator[bytes]:
    for question in questions:
        for id_ in question.relevant:
            yield f"{question.id} 0 {id_} 1\n".encode()


def _run(
    questions: Sequence[JudgedQuestion], found: Sequence[Sequence[Scored]], name: str
) -> Iterator[bytes]:
    for question, ranking in zip(questions, found, strict=True):
        for rank, one in enumerate(ranking, start=1):
            yield f"{question.id} Q0 {one.id} {rank} {len(ranking) - rank + 1} {name}\n".encode()
