"""Submissions to the shared task, in the forms that its scorers read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cases.files import json_bytes, write_atomically
from cases.texts import one_line

_NAME = "submission.json"
_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed date: equal submissions are equal files


def write_submission_2025(
    path: Path, answers: Iterable[tuple[str, Sequence[tuple[str, Sequence[str]]]]]
) -> None:
    """Write answers of 2025: one sentence a line, its cited ids between pipes at the end.

    Args:
        path: the file to write; a zip if its name ends so.
        answers: of each case its id and the sentences with the ids that each cites.
    """
    entries = (
        {"case_id": case_id, "answer": "\n".join(filter(None, (_line(*part) for part in sentences)))}
        for case_id, sentences in answers
    )
    _write(path, entries)


def write_submission_2026_evidence(path: Path, evidence: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Write the evidence of 2026 (subtask 2): of each case its id and the ids of the needed sentences."""
    _write(path, ({"case_id": case_id, "prediction": list(ids)} for case_id, ids in evidence))


def write_submission_2026_answer(path: Path, answers: Iterable[tuple[str, str]]) -> None:
    """Write the answers of 2026 (subtask 3): of each case its id and the text, without citations."""
    _write(path, ({"case_id": case_id, "prediction": text} for case_id, text in answers))


def _line(sentence: str, cited: Sequence[str]) -> str:
    text = one_line(sentence).replace("|", "/")
    return f"{text} |{','.join(cited)}|".lstrip() if cited else text


def _write(path: Path, entries: Iterable[Mapping[str, object]]) -> None:
    content = json_bytes(list(entries), indent=2)
    if path.suffix.lower() == ".zip":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_NAME, _DATE), content, zipfile.ZIP_DEFLATED)
        content = packed.getvalue()
    write_atomically(path, [content])
