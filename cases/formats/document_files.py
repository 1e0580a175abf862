"""Files of documents: found by their names, read by the reader that fits them; JSON lines are read here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from cases.documents import Document, Skipped
from cases.formats.json_border import Identifier, Line, Text, first_fault
from cases.formats.pubmed_xml import read_pubmed_xml
from storage.errors import InputError
from storage.files import MAX_LINE_BYTES, DamagedFile, Meter, lines

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


def read_documents_jsonl(path: Path, start: int, meter: Meter) -> Iterator[Document | Skipped]:
    """Read a file in its order, one document at a time; empty lines are nothing.

    Raises:
        InputError: The file cannot be opened.
    """
    passed = number = 0
    try:
        for number, line in enumerate(lines(path, meter), start=1):
            if not line.strip():
                continue
            passed += 1
            if passed > start:
                yield _record(f"{path}: line {number}", line)
    except DamagedFile as error:
        if passed >= start:
            yield Skipped(f"{path}: after line {number}", str(error), "damaged file")


def _joined(value: object) -> object:
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


ReaderName = Literal["pubmed", "jsonl"]
Reader = Callable[[Path, int, Meter], Iterator[Document | Skipped]]

READERS: Mapping[ReaderName, Reader] = {"pubmed": read_pubmed_xml, "jsonl": read_documents_jsonl}
_BY_SUFFIX: Mapping[str, ReaderName] = {
    ".xml": "pubmed",
    ".xml.gz": "pubmed",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
}
_SUFFIXES = ", ".join(_BY_SUFFIX)


def reader_of(path: Path, name: ReaderName | None = None) -> Reader:
    """The reader of a file, by the name given or by the file's own.

    Raises:
        InputError: Its suffix is none that is known.
    """
    found = name or _suffix_reader(path)
    if found is None:
        raise InputError(path, f"documents are read from {_SUFFIXES}", "Or say how to read it with --reader")
    return READERS[found]


def find_documents(inputs: Sequence[Path], name: ReaderName | None = None) -> tuple[Path, ...]:
    """The files that `inputs` name, in their order; of a folder those with a known suffix, by name.

    Raises:
        InputError: A path is missing, a file has an unknown suffix, or a folder has no file of documents.
    """
    found: dict[Path, Path] = {}
    for given in inputs:
        for path in _files(given, name):
            found.setdefault(path.resolve(), path)
    return tuple(found.values())


def _files(given: Path, name: ReaderName | None) -> list[Path]:
    if not given.exists():
        raise InputError(given, "no such file or folder")
    if not given.is_dir():
        reader_of(given, name)
        return [given]
    entries = sorted(given.iterdir(), key=lambda entry: entry.name)
    files = [entry for entry in entries if _suffix_reader(entry) and not entry.name.startswith(".")]
    if not files:
        raise InputError(given, f"no file of documents in this folder ({_SUFFIXES})")
    return files


def _suffix_reader(path: Path) -> ReaderName | None:
    return next((name for suffix, name in _BY_SUFFIX.items() if path.name.lower().endswith(suffix)), None)
