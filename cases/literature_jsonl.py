"""Documents as JSON lines: one object a line, in the field names of this project or of public data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from cases.json_border import Identifier, Line, Text, first_fault
from cases.literature import Document, Skipped
from cases.packed_files import MAX_LINE_BYTES, DamagedFile, Meter, lines

FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "pmid", "doc_id", "pmcid"),
    "title": ("title",),
    "text": ("text", "abstract", "sections"),
    "year": ("year",),
    "citations": ("citations",),
    "study_types": ("study_types",),
    "source": ("source", "journal"),
}
"""Field of a document to the names that it is read from; the first that has a value counts.

So abstracts of Evidence Inference (pmid or pmcid, abstract, journal), PubMedQA (pmid, sections) and SciFact
(doc_id, abstract as a list of sentences) are read as they are.
"""

_BOM = b"\xef\xbb\xbf"


def read_literature_jsonl(path: Path, start: int, meter: Meter) -> Iterator[Document | Skipped]:
    """Read a file in its order, one document at a time; empty lines are nothing.

    Args:
        path: `.jsonl` or `.jsonl.gz`.
        start: So many records are passed over without a look at them.
        meter: Told how far the file has been read.

    Raises:
        InputError: The file cannot be opened.
    """
    passed = number = 0
    try:
        for number, line in enumerate(lines(path, meter), start=1):
            content = line.removeprefix(_BOM) if number == 1 else line
            if not content.strip():
                continue
            passed += 1
            if passed > start:
                yield _record(f"{path}: line {number}", content)
    except DamagedFile as error:
        if passed >= start:
            yield Skipped(f"{path}: after line {number}", str(error), "damaged file")


def _joined(value: object) -> object:
    """Sentences or sections as one text."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(part.strip() for part in value)
    return value


def _nothing(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


class _Fields(BaseModel):
    id: Identifier
    title: Line = ""
    text: Annotated[Text, BeforeValidator(_joined)] = ""
    year: Annotated[int | None, BeforeValidator(_nothing), Field(ge=1500, le=3000)] = None
    citations: Annotated[int | None, BeforeValidator(_nothing), Field(ge=0)] = None
    study_types: tuple[Line, ...] = ()
    source: Line = ""


def _record(place: str, line: bytes) -> Document | Skipped:
    if len(line) > MAX_LINE_BYTES:
        return Skipped(place, f"longer than {MAX_LINE_BYTES >> 20} MB", "unreadable")
    try:
        given = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Skipped(place, f"cannot be read as JSON: {error.msg}", "unreadable")
    if not isinstance(given, dict):
        return Skipped(place, "not a JSON object", "unreadable")
    try:
        fields = _Fields.model_validate(_chosen(given))
    except ValidationError as error:
        return Skipped(place, first_fault(error), "unreadable")
    if not (fields.title or fields.text):
        return Skipped(place, f"{fields.id!r} has neither title nor text", "empty")
    return Document(
        id=fields.id,
        title=fields.title,
        text=fields.text,
        year=fields.year,
        citations=fields.citations,
        study_types=tuple(kind for kind in fields.study_types if kind),
        source=fields.source,
    )


def _chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {}
    for field, names in FIELDS.items():
        name = next((name for name in names if given.get(name) is not None), None)
        if name is not None:
            # Two numberings may overlap: a PubMed id and the id in PubMed Central.
            pmcid = name == "pmcid" and str(given[name]).isdecimal()
            chosen[field] = f"PMC{given[name]}" if pmcid else given[name]
    return chosen
