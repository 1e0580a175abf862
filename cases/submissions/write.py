"""Submissions, written in the forms that the official scorers read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cases.files import write_atomically
from cases.submissions.container import packed
from cases.submissions.forms import entry_of
from cases.submissions.prediction import Prediction, Task


def write_submission(path: Path, task: Task, predictions: Iterable[Prediction]) -> None:
    """Write predictions, all of them or none.

    Args:
        path: File to write. If it ends in `.zip`, it is the archive to upload: `submission.json` alone, and
            equal bytes for equal predictions. Else it is JSON.
        task: Which part of a prediction is written, and how.
        predictions: In the order in which they are to stand.

    Raises:
        ValueError: A prediction says nothing on the task, or an id cannot be written; names the case.
        InputError: The folder is missing or the file cannot be written.
    """
    entries = [entry_of(prediction, task) for prediction in predictions]
    write_atomically(path, [packed(entries, path.suffix)])
