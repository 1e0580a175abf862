"""The file of a submission: one JSON object with the list `questions`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cases.bioasq_json import is_bioasq
from cases.bioasq_submissions.forms import form_faults, prediction_of
from cases.bioasq_submissions.prediction import BioasqPrediction
from cases.errors import InputError
from cases.files import json_bytes, opened, write_atomically
from cases.json_questions import read_json

_BLANKS = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def looks_like_bioasq(path: Path) -> bool:
    """Whether a file begins as a submission to BioASQ does: as an object, where those to ArchEHR are arrays.

    Raises:
        InputError: It cannot be read.
    """
    with opened(path) as file:
        return file.read(64).removeprefix(_BOM).lstrip(_BLANKS).startswith(b"{")


def read_entries(path: Path) -> list[Any]:
    """The questions of a submission, not yet checked.

    Raises:
        InputError: The file cannot be read, or has no list `questions`.
    """
    content = read_json(path)
    if not is_bioasq(content) or not isinstance(content["questions"], list):
        raise InputError(path, "no list of questions in it", 'Write {"questions": [{"id": ...}, ...]}')
    return content["questions"]


def read_predictions(path: Path) -> list[BioasqPrediction]:
    """Read a submission of any phase for scoring; a repeated document counts once.

    Raises:
        InputError: The file or a question cannot be read, or a question is there twice.
    """
    found: dict[str, BioasqPrediction] = {}
    for number, entry in enumerate(read_entries(path), start=1):
        faults = form_faults(entry, number)
        if faults:
            raise InputError(path, faults[0].line, faults[0].remedy)
        prediction = prediction_of(entry)
        if prediction.id in found:
            raise InputError(path, f"question {prediction.id!r} is there twice", "Keep one of them")
        found[prediction.id] = prediction
    return [*found.values()]


def write_entries(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Write a submission; equal entries give equal bytes.

    Raises:
        InputError: The folder is missing or the file cannot be written.
    """
    write_atomically(path, [json_bytes({"questions": [*entries]}, indent=2)])
