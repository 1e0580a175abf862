"""Keys as people label in spreadsheets: one line for each labelled sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from cases.formats.tables import table_rows
from cases.records import Label
from cases.texts import printable
from storage.errors import InputError

_COLUMNS = ("case_id", "sentence_id", "label")
_LABELS = get_args(Label)


def table_key_entries(path: Path, content: bytes) -> list[dict[str, Any]]:
    """Entries of a JSON key for a table with the columns `case_id`, `sentence_id` and `label`.

    Other columns, such as the sentence itself, are not read. Capitals do not matter in a label, nor does a
    blank in place of its hyphen.

    Raises:
        InputError: It is not such a table, a cell is empty, or a sentence is labelled twice; names the line.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(path, f"line {line}: not UTF-8", "Save it as CSV UTF-8") from None
    labels: dict[str, dict[str, str]] = {}
    for line, case_id, sentence_id, label in _cells(path, text):
        known = labels.setdefault(case_id, {})
        if sentence_id in known:
            fault = f"line {line}: sentence {sentence_id!r} of case {case_id!r} is labelled above"
            raise InputError(path, fault, "Keep one line for each sentence")
        known[sentence_id] = label
    if not labels:
        raise InputError(path, "names columns, and has no label below them", "Put one sentence on each line")
    return [
        {
            "case_id": case_id,
            "answers": [{"sentence_id": one, "relevance": label} for one, label in found.items()],
        }
        for case_id, found in labels.items()
    ]


def _cells(path: Path, text: str) -> Iterator[tuple[int, str, str, str]]:
    remedy = f"The first line of a key names the columns: {', '.join(_COLUMNS)}"
    rows = table_rows(path, text, _COLUMNS, _COLUMNS, remedy)
    _, header = next(rows)
    for line, cells in rows:
        row = dict(zip(header, map(str.strip, cells), strict=False))
        empty = next((name for name in _COLUMNS if not row.get(name)), None)
        if empty is not None:
            raise InputError(path, f"line {line}: {empty}: is empty", "Fill the cell, or remove the line")
        label = "-".join(row["label"].lower().replace("_", " ").replace("-", " ").split())
        if label not in _LABELS:
            fault = f"line {line}: label: {printable(row['label'])!r} is unknown"
            raise InputError(path, fault, f"Labels are: {', '.join(_LABELS)}")
        yield line, row["case_id"], row["sentence_id"], label
