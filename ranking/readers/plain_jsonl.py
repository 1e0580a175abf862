"""Plain JSON lines: one query against one document a line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from cases.errors import InputError
from cases.json_border import Identifier, Line, not_empty
from cases.records import LabelSource
from ranking.examples import Example
from ranking.readers.json_lines import JsonLine, read_json_lines


class JsonlOptions(BaseModel):
    """Plain JSON lines leave nothing open."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reader: Literal["jsonl"] = "jsonl"


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Identifier
    query: Annotated[Line, AfterValidator(not_empty)]
    sentences: list[Line]
    labels: list[bool] | None = None
    evidence: list[int] | None = None
    document_id: Identifier | None = None
    group: Identifier | None = None
    label_source: LabelSource = "gold"


def read_plain_jsonl(path: Path) -> Iterator[Example]:
    """Make an example of each line.

    A line has `id`, `query`, `sentences` (a list of texts), and either `labels` (0 or 1 for each sentence) or
    `evidence` (positions from 0), or neither where nobody has labelled. `document_id` is by default the same
    for equal lists of sentences, `group` is by default the document, `label_source` is `gold` or `weak`.

    Raises:
        InputError: The file cannot be read or is empty, or a line is wrong.
    """
    empty = True
    for line in read_json_lines(path):
        empty = False
        yield _example(line, line.read_as(_Line, known=True))
    if empty:
        raise InputError(path, "no example in it", "Put one JSON object on each line")


def _example(line: JsonLine, fields: _Line) -> Example:
    if not fields.sentences:
        raise line.fault("sentences: is empty", "Leave the line out")
    document_id = fields.document_id or _digest(fields.sentences)
    return Example(
        id=fields.id,
        query=fields.query,
        sentences=tuple(fields.sentences),
        labels=_labels(line, fields),
        document_id=document_id,
        group=fields.group or document_id,
        label_source=fields.label_source,
    )


def _labels(line: JsonLine, fields: _Line) -> tuple[bool, ...] | None:
    size = len(fields.sentences)
    if fields.labels is not None and fields.evidence is not None:
        raise line.fault("labels and evidence: both are given", "Keep one of them")
    if fields.labels is not None:
        if len(fields.labels) != size:
            raise line.fault(f"labels: {len(fields.labels)} for {size} sentences", "Give one for each")
        return tuple(fields.labels)
    if fields.evidence is None:
        return None
    beyond = next((position for position in fields.evidence if not 0 <= position < size), None)
    if beyond is not None:
        raise line.fault(f"evidence: sentence {beyond} of {size}, counted from 0")
    evidence = set(fields.evidence)
    return tuple(position in evidence for position in range(size))


def _digest(sentences: list[str]) -> str:
    return hashlib.sha256(json.dumps(sentences).encode()).hexdigest()[:16]
