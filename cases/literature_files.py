"""Files of documents, found by their names and read by the reader that fits them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from cases.errors import InputError
from cases.literature import Document, Skipped
from cases.literature_jsonl import read_literature_jsonl
from cases.packed_files import Meter
from cases.pubmed_xml import read_pubmed_xml

ReaderName = Literal["pubmed", "jsonl"]
Reader = Callable[[Path, int, Meter], Iterator[Document | Skipped]]

READERS: Mapping[ReaderName, Reader] = {"pubmed": read_pubmed_xml, "jsonl": read_literature_jsonl}
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


def find_literature(inputs: Sequence[Path], name: ReaderName | None = None) -> tuple[Path, ...]:
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
