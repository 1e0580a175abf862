"""Scores of a ranker on a set of examples, kept so that tables need no model."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cases.files import json_bytes, write_atomically
from evals.studies.errors import StudyError
from ranking.examples import Example
from ranking.ranker import Scores


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """What a score is compared with; no text.

    Attributes:
        group: Cases of one group are not independent.
        labels: Shape (sentences,).
        lengths: Of the sentences in characters, shape (sentences,).
    """

    id: str
    group: str
    labels: tuple[bool, ...]
    lengths: tuple[int, ...]


def labelled_cases(examples: Iterable[Example]) -> list[LabelledCase]:
    """The cases of labelled examples."""
    return [
        LabelledCase(one.id, one.group, one.labels, tuple(map(len, one.sentences)))
        for one in examples
        if one.labels is not None
    ]


def write_cases(path: Path, cases: Iterable[LabelledCase]) -> None:
    """Write one JSON object a line.

    Raises:
        InputError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json_bytes(asdict(case)) for case in cases))


def read_cases(path: Path) -> dict[str, LabelledCase]:
    """Read what `write_cases` wrote, by id.

    Raises:
        StudyError: The file is missing or damaged.
    """
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        cases = [
            LabelledCase(line["id"], line["group"], tuple(line["labels"]), tuple(line["lengths"]))
            for line in lines
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None
    return {case.id: case for case in cases}


def write_scores(path: Path, ids: Sequence[str], scores: Sequence[Scores]) -> None:
    """Write the logits of each example, shape (sentences,).

    Raises:
        InputError: The file cannot be written.
    """
    written = io.BytesIO()
    np.savez_compressed(
        written,
        ids=np.asarray(ids, dtype=np.str_),
        ends=np.cumsum([len(one) for one in scores]),
        scores=np.concatenate([np.zeros(0, np.float32), *scores]).astype(np.float32),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [written.getvalue()])


def read_scores(path: Path) -> Mapping[str, Scores]:
    """Read what `write_scores` wrote, by the id of the example.

    Raises:
        StudyError: The file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            parts = np.split(stored["scores"], stored["ends"][:-1])
            return dict(zip(stored["ids"].tolist(), parts, strict=True))
    except Exception as error:
        # Errors of several libraries, on a file that was cut or changed.
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> StudyError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return StudyError(f"{path}: cannot be read: {reason}. Remove it and start the study again")
