"""The examples of a job, from its paths."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from ranking.errors import RankerError
from ranking.readers.load import ReaderName, load_examples
from ranking.training.job import TrainingData, TrainingJob


def load_data(job: TrainingJob) -> TrainingData:
    """Read a job's data and those of its pre-training.

    Raises:
        InputError: A path is missing, damaged or of no known format.
        RankerError: There is no reader of that name, or a recipe pre-trains on nothing.
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
        RankerError: There is no such reader.
    """
    for known in get_args(ReaderName):
        if name == known:
            found: ReaderName = known
            return found
    if name is not None:
        raise RankerError(f"reader {name!r}: known are {', '.join(get_args(ReaderName))}")
    return None
