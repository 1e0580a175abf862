"""Notes as people have them, text, Word, PDF and tables of CSV, made into cases with numbered sentences."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cases.formats.note_sentences import note_sentences
from cases.formats.office_files import OFFICE_SUFFIXES, office_text
from cases.formats.tables import TABLE_SUFFIXES, table_rows
from cases.records import Case, Sentence
from cases.texts import one_line, plural, printable
from storage.errors import InputError, missing
from storage.files import whole

COLUMNS = ("id", "question", "narrative", "note")
"""Columns of a table; only the note is needed in every line."""

NOTE_SUFFIXES = (".txt", ".md", *OFFICE_SUFFIXES, *TABLE_SUFFIXES)
"""Of files with notes."""
_CASE_FILES = (".jsonl", ".xml", ".json")
_SAVE_AS = {
    **dict.fromkeys((".doc", ".rtf", ".odt", ".pages", ".html", ".htm"), ".docx or text"),
    **dict.fromkeys((".xls", ".xlsx", ".ods"), ".csv"),
}
"""Formats to save others in."""
_QUESTION = ".question.txt"
_NARRATIVE = ".narrative.txt"
_SIGNATURES = {
    b"PK\x03\x04": ("is a Word or zip file", "Give it the suffix .docx if Word wrote it, or save it as text"),
    b"%PDF-": ("is a PDF", "Give it the suffix .pdf"),
    b"\xd0\xcf\x11\xe0": ("is a file of an old Word or Excel", "Save it as .docx, .csv or text"),
    b"{\\rtf": ("is rich text (RTF)", "Save it as .docx or text"),
}
"""What files begin with that are often taken for text."""

_MAX_NOTE = 1 << 20
"""Characters; a book has as many."""
_MAX_TABLE = 1 << 28
_MAX_OFFICE = 1 << 26
"""Bytes; most of such a file are pictures and fonts."""
_MAX_ID = 128
_MAX_FAULTS = 1000
"""After this many faults a file is probably of another kind, and reading stops."""

_UNSAFE_ID = re.compile(r"^-|[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(slots=True)
class ImportedNotes:
    """Cases of files.

    Attributes:
        cases: In the order of the files and of their lines.
        faults: What is wrong, by file and line; nothing should be written if there are any.
        unused: Columns that are not read, by table.
        unread: Files of folders that are of another kind.
        given_up: Whether so much was wrong that the rest was not read.
    """

    cases: list[Case] = field(default_factory=list)
    faults: list[InputError] = field(default_factory=list)
    unused: dict[Path, list[str]] = field(default_factory=dict)
    unread: list[Path] = field(default_factory=list)
    given_up: bool = False


class _Fault(Exception):
    """One case is unusable; with a remedy."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault)
        self.fault, self.remedy = fault, remedy


class _Given(NamedTuple):
    """Options that apply to all files."""

    question: str
    encoding: str
    columns: Mapping[str, str]


def import_notes(
    inputs: Sequence[Path],
    *,
    question: str = "",
    encoding: str = "utf-8",
    columns: Mapping[str, str] | None = None,
) -> ImportedNotes:
    """Read files of one note each, tables, and folders of both.

    The id of such a note's case is its name without the suffix; `NAME.question.txt` and `NAME.narrative.txt`
    next to it are its question and the patient's message.

    Args:
        inputs: Files with one of `NOTE_SUFFIXES`, and folders whose files of these kinds are taken by name.
        question: Of every case that comes without one.
        encoding: Of all files of text.
        columns: Names that tables have for some of `COLUMNS`.

    Raises:
        InputError: A file is missing, or cannot be read as what its name says.
    """
    found = ImportedNotes()
    given = _Given(question, encoding, {key: name.strip().lower() for key, name in (columns or {}).items()})
    places: dict[str, str] = {}
    for path in {file.resolve(): file for one in inputs for file in _files(one, found)}.values():
        read = _read_table if path.suffix.lower() in TABLE_SUFFIXES else _read_note
        for place, make in read(path, given, found):
            where = str(path) if not place else f"{path}: {place}"
            try:
                case = make()
                if (first := places.setdefault(case.id, where)) != where:
                    raise _Fault(f"case id {case.id!r} is also used by {first}", "Each case needs its own id")
            except _Fault as error:
                found.faults.append(InputError(where, error.fault, error.remedy))
            except InputError as error:
                found.faults.append(error)
            else:
                found.cases.append(case)
            if len(found.faults) >= _MAX_FAULTS:
                found.given_up = True
                return found
    return found


def note_case(case_id: str, question: str, note: str, where: object) -> Case:
    """A case whose sentences are those of a note, numbered from 1.

    Raises:
        InputError: The note has no sentence, or is too long; names where it came from.
    """
    try:
        return _case(case_id, question, "", note)
    except _Fault as error:
        raise InputError(where, error.fault, error.remedy) from None


def read_note(path: Path, encoding: str = "utf-8") -> str:
    """The text of a file of one note: text, Word or PDF.

    Raises:
        InputError: It is too long, or cannot be read as what its suffix says.
    """
    suffix = path.suffix.lower()
    if suffix in OFFICE_SUFFIXES:
        return office_text(whole(path, _MAX_OFFICE), path, suffix)
    return decoded(whole(path, 4 * _MAX_NOTE), path, encoding)


def decoded(content: bytes, name: object, encoding: str = "utf-8") -> str:
    """The text in some bytes, without a byte order mark.

    Raises:
        InputError: They are not text in this encoding; names the line, and the likely encoding.
    """
    for signature, (fault, remedy) in _SIGNATURES.items():
        if content.startswith(signature):
            raise InputError(name, fault, remedy)
    wide = encoding.lower().startswith("utf-16")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not wide:
        raise InputError(name, "is in UTF-16", "Save it as UTF-8, or give --encoding utf-16")
    try:
        text = content.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except LookupError:
        raise InputError(
            "--encoding", f"no encoding {encoding!r}", "Such as: utf-8, cp1252, utf-16"
        ) from None
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        fault = f"line {line}: not {encoding.upper()}"
        raise InputError(name, fault, _encoding_remedy(content, encoding)) from None
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        remedy = _encoding_remedy(content, encoding)
        raise InputError(name, f"line {line}: has a NUL byte, so it is not text", remedy)
    return text


def _encoding_remedy(content: bytes, tried: str) -> str:
    """The encoding that a file seems to be in: half of the bytes of English in UTF-16 are NUL."""
    start = content[:4096]
    for place, other in ((1, "utf-16-le"), (0, "utf-16-be")):
        if 2 * start[place::2].count(0) > len(start[place::2]) and other != tried.lower():
            return f"It seems to be in UTF-16: give --encoding {other}"
    if start.count(0):
        return "Open it in the program that wrote it, and save it as text in UTF-8"
    utf8 = tried.lower() in ("utf-8", "utf8")
    return f"Save it as UTF-8, or give --encoding {'cp1252 if it comes from Windows' if utf8 else 'utf-8'}"


_Make = Callable[[], Case]


def _files(given: Path, found: ImportedNotes) -> list[Path]:
    """The files that one argument names.

    Raises:
        InputError: It does not exist, or is of another kind.
    """
    kinds = f"{', '.join(NOTE_SUFFIXES)}, or a folder of them"
    if given.is_dir():
        there = sorted(path for path in given.iterdir() if path.is_file() and not path.name.startswith("."))
        files = [path for path in there if path.suffix.lower() in NOTE_SUFFIXES and not _is_beside(path)]
        found.unread += [path for path in there if path not in files and not _is_beside(path)]
        if not files:
            raise InputError(given, "no note in this folder", f"Notes are in {kinds}")
        return files
    if not given.exists():
        raise missing(given)
    suffix = given.suffix.lower()
    if suffix in _CASE_FILES:
        raise InputError(given, "is a case file already", "`evigraph run SYSTEM FILE` reads it as it is")
    if suffix not in NOTE_SUFFIXES:
        save = f"Save it as {_SAVE_AS[suffix]}; notes" if suffix in _SAVE_AS else "Notes"
        raise InputError(given, f"{suffix or 'no suffix'} is not read", f"{save} are in {kinds}")
    return [given]


def _is_beside(path: Path) -> bool:
    """Whether it belongs to a note next to it."""
    return path.name.endswith((_QUESTION, _NARRATIVE))


def _read_note(path: Path, given: _Given, _: ImportedNotes) -> Iterator[tuple[str, _Make]]:
    """The case of a file of one note."""
    stem = path.name[: -len(path.suffix)]

    def make() -> Case:
        own = {}
        for name, suffix in (("question", _QUESTION), ("narrative", _NARRATIVE)):
            companion = path.with_name(stem + suffix)
            own[name] = (
                decoded(whole(companion, _MAX_NOTE), companion, given.encoding) if companion.is_file() else ""
            )
        note = read_note(path, given.encoding)
        if not own["question"].strip() and not own["narrative"].strip() and not given.question:
            name = stem + _QUESTION
            raise _Fault("has no question", f"Give --question TEXT for all, or write {name} next to it")
        return _case(stem, own["question"] or given.question, own["narrative"], note)

    yield "", make


def _read_table(path: Path, given: _Given, found: ImportedNotes) -> Iterator[tuple[str, _Make]]:
    """The cases of a table, by the lines where they begin.

    Raises:
        InputError: It has no column of notes, or is not CSV.
    """
    text = decoded(whole(path, _MAX_TABLE), path, given.encoding)
    named = {name: column for column, name in given.columns.items()}
    columns = [given.columns.get(column, column) for column in COLUMNS]
    remedy = f"The first line names the columns: {', '.join(COLUMNS)}; or name yours: --note-column NAME"
    rows = table_rows(path, text, columns, [columns[-1], *named], remedy)
    _, header = next(rows)
    if unused := [name for name in header if name not in columns]:
        found.unused[path] = unused
    header = [named.get(name, "" if name in given.columns else name) for name in header]
    empty = True
    for line, cells in rows:
        empty = False
        yield f"line {line}", _of_row(line, header, cells, given.question)
    if empty:
        raise InputError(path, "names columns, and has no case below them", "Put one case on each line")


def _of_row(line: int, header: list[str], cells: list[str], question: str) -> _Make:
    def make() -> Case:
        if len(cells) > len(header):
            fault = f"{plural(len(cells), 'cell')}, and the first line names {len(header)} columns"
            raise _Fault(fault, "A cell with the delimiter in it needs double quotes around it")
        row: Mapping[str, str] = dict(zip(header, cells, strict=False))
        case_id = row.get("id", "").strip() if "id" in header else str(line)
        if not case_id:
            raise _Fault("id: is empty", "Each case needs a unique id")
        own, narrative = row.get("question", ""), row.get("narrative", "")
        if not own.strip() and not narrative.strip() and not question:
            raise _Fault("has neither a question nor a narrative", "Fill a cell, or give --question TEXT")
        return _case(case_id, own if own.strip() else question, narrative, row.get("note", ""))

    return make


def _case(case_id: str, question: str, narrative: str, note: str) -> Case:
    _check_id(case_id)
    if len(note) > _MAX_NOTE:
        raise _Fault(f"its note has {len(note):,} characters", f"At most {_MAX_NOTE:,} are read as one note")
    sentences = note_sentences(note)
    if not sentences:
        raise _Fault("its note is empty", "A note needs at least one sentence")
    return Case(
        id=case_id,
        narrative=narrative.strip(),
        question=one_line(question),
        sentences=tuple(Sentence(str(number), one) for number, one in enumerate(sentences, start=1)),
    )


def _check_id(case_id: str) -> None:
    """Check an id, as it is used in commands, tables and addresses of pages."""
    try:
        case_id.encode()
    except UnicodeEncodeError:
        raise _Fault("its name is not UTF-8, so it makes no case id", "Rename the file") from None
    if len(case_id) > _MAX_ID:
        raise _Fault(f"case id of {len(case_id)} characters", f"At most {_MAX_ID} make an id")
    if _UNSAFE_ID.search(case_id):
        why = "it begins with a dash, or has a line break or control code"
        raise _Fault(f"{printable(case_id)!r} is not a valid case id: {why}", "Rename it")
