"""A training's job, kept in its folder so that it can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from cases.definitions import Section
from cases.texts import quoted
from ranking.errors import RankerError
from ranking.examples import Example, data_sha256
from ranking.rankers.ranker import CHECKPOINT
from ranking.readers.load import ReaderName, load_examples
from ranking.training.recipe import TrainingRecipe
from storage.files import json_bytes, write_atomically
from storage.locks import FileLock, LockedError

WORKPLACE = "training"
"""Folder, inside of the ranker's, that is gone when the training has ended."""

_JOB = "job.json"


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Examples as the readers give them; unlabelled ones are left out later, and counted."""

    examples: Sequence[Example]
    pretraining: Sequence[Example] = ()

    @property
    def sha256(self) -> str:
        return data_sha256([*self.examples, *self.pretraining])


class TrainingJob(Section):
    """A training.

    Attributes:
        recipe: All values, with command-line changes.
        data: Paths of the examples.
        reader: Reader of these paths; None infers it from each path.
        data_sha256: Digest of the data when the training began.
    """

    name: str
    recipe: TrainingRecipe
    data: tuple[str, ...] = ()
    reader: str | None = None
    limit: int | None = None
    data_sha256: str = ""


def write_job(folder: Path, job: TrainingJob) -> None:
    """Begin a training in a folder that is new or empty.

    Raises:
        RankerError: There is something in it.
    """
    if folder.exists() and any(folder.iterdir()):
        unfinished = (folder / WORKPLACE / _JOB).is_file()
        hint = f"go on with evigraph train --resume {quoted(folder)}, or name" if unfinished else "name"
        raise RankerError(f"{folder}: not empty; {hint} another folder with --out")
    workplace = folder / WORKPLACE
    workplace.mkdir(parents=True, exist_ok=True)
    write_atomically(workplace / _JOB, [json_bytes(job.model_dump(mode="json"), indent=2)])


def read_job(folder: Path) -> TrainingJob:
    """Read the job of the training in a folder.

    Raises:
        RankerError: No training was begun there, it has ended, or its record is damaged.
    """
    path = folder / WORKPLACE / _JOB
    try:
        return TrainingJob.model_validate_json(path.read_text("utf-8"))
    except FileNotFoundError:
        ended = (folder / CHECKPOINT).is_file()
        reason = "its training has ended" if ended else "no training was begun there"
        raise RankerError(f"{folder}: {reason}, so there is nothing to resume") from None
    except (OSError, ValueError) as error:
        raise RankerError(f"{path}: damaged ({type(error).__name__}); train anew elsewhere") from None


def require_same(folder: Path, begun: TrainingJob, now: TrainingJob) -> None:
    """Check that a resumed training has the same job.

    Raises:
        RankerError: Recipe or data differ: the result would match neither.
    """
    if now.recipe.sha256 != begun.recipe.sha256:
        fields = [
            name
            for name in TrainingRecipe.model_fields
            if getattr(now.recipe, name) != getattr(begun.recipe, name)
        ]
        raise RankerError(
            f"{folder}: begun with other values of {', '.join(fields)}; resume without a recipe, or train"
            " into another folder"
        )
    if now.data_sha256 != begun.data_sha256:
        raise RankerError(
            f"{folder}: the data are not those that the training began with ({', '.join(begun.data)});"
            " restore them, or train into another folder"
        )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a second process out of the same training.

    Raises:
        RankerError: There is one already.
    """
    try:
        lock = FileLock(folder / WORKPLACE / ".lock")
    except LockedError as error:
        raise RankerError(f"{folder}: a training is under way in it: {error}") from None
    with lock:
        yield


def load_data(job: TrainingJob) -> TrainingData:
    """Read a job's data and those of its pre-training.

    Raises:
        InputError: A path is missing, damaged or of no known format.
        RankerError: The reader is unknown, or a recipe pre-trains without data.
    """
    reader = reader_name(job.reader)
    examples = load_examples([Path(path) for path in job.data], reader)
    pretrain = job.recipe.pretrain
    if pretrain is None:
        return TrainingData(examples[: job.limit])
    if not pretrain.data:
        raise RankerError("the recipe pre-trains but names no data: pass --pretrain PATH")
    # Most often another data set, so it is recognised by itself.
    pretraining = load_examples([Path(path) for path in pretrain.data])
    return TrainingData(examples[: job.limit], pretraining)


def reader_name(name: str | None) -> ReaderName | None:
    """A name as the command line gives it.

    Raises:
        RankerError: The reader is unknown.
    """
    for known in get_args(ReaderName):
        if name == known:
            found: ReaderName = known
            return found
    if name is not None:
        raise RankerError(f"reader {name!r}: known are {', '.join(get_args(ReaderName))}")
    return None
