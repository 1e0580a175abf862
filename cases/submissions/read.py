"""Submissions, read as the official scorers read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from cases.errors import InputError
from cases.submissions.container import read_entries
from cases.submissions.forms import form_faults, prediction_of
from cases.submissions.prediction import Prediction, Task


def read_submission(path: Path, task: Task) -> list[Prediction]:
    """Read a submission, `.json` or `.zip`, so that scoring what it says equals the official score.

    Silent rules of the official loaders apply: texts are cut at their limit of words, ids are not stripped,
    equal ids and pairs count once. A case that is named twice is there twice, as it is scored twice.
    `Prediction` says what of an entry of 2025 goes where.

    Raises:
        InputError: What makes the official loader raise. Ids that the key does not have are no such fault:
            they show only beside the key.
    """
    predictions = []
    for number, entry in enumerate(read_entries(path), start=1):
        faults = form_faults(entry, number, task)
        if faults:
            raise InputError(path, faults[0].line, faults[0].remedy)
        predictions.append(prediction_of(cast("dict[str, Any]", entry), task))
    return predictions
