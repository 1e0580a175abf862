"""Notes as people have them, text files and tables of CSV, made into cases with numbered sentences."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cases.formats.note_sentences import note_sentences
from cases.records import Case, Sentence
from cases.texts import one_line, plural, printable
from storage.errors import InputError
from storage.files import whole

COLUMNS = ("id", "question", "narrative", "note")
"""Of a table; only the note is needed in every line."""

_TABLES = (".csv", ".tsv")
_CASE_FILES = (".jsonl", ".xml", ".json")
_QUESTION = ".question.txt"
_NARRATIVE = ".narrative.txt"
_DELIMITERS = ",;\t|"

_MAX_NOTE = 1 << 20
"""Characters; a book has as many."""
_MAX_TABLE = 1 << 28
_MAX_ID = 128
_MAX_FAULTS = 1000
"""After so many a file is not what it was given for, and is read no further."""

_UNSAFE_ID = re.compile(r"^-|[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(slots=True)
class ImportedNotes:
    """What files hold.

    Attributes:
        cases: In the order of the files and of their lines.
        faults: What is wrong, by file and line; nothing should be written where there are some.
        unused: Columns that are not read, by table.
        given_up: Whether so much was wrong that the rest was not read.
    """

    cases: list[Case] = field(default_factory=list)
    faults: list[InputError] = field(default_factory=list)
    unused: dict[Path, list[str]] = field(default_factory=dict)
    given_up: bool = False


class _Fault(Exception):
    """What makes one case unusable, and what to do."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault)
        self.fault, self.remedy = fault, remedy


def import_notes(inputs: Sequence[Path], *, question: str = "", encoding: str = "utf-8") -> ImportedNotes:
    """Read text files, tables and folders of text files.

    The id of a text file's case is its name without `.txt`; `NAME.question.txt` and `NAME.narrative.txt`
    beside it are its question and the patient's message.

    Args:
        inputs: `.txt`, `.csv`, `.tsv`, or folders whose `.txt` files are taken by name.
        question: Of every case that comes without one.
        encoding: Of all files.

    Raises:
        InputError: A file is missing, or cannot be read as what its name says.
    """
    found = ImportedNotes()
    places: dict[str, str] = {}
    for path in {file.resolve(): file for given in inputs for file in _files(given)}.values():
        read = _read_table if path.suffix.lower() in _TABLES else _read_text
        for place, make in read(path, question, encoding, found):
            where = str(path) if not place else f"{path}: {place}"
            try:
                case = make()
                if (first := places.setdefault(case.id, where)) != where:
                    raise _Fault(f"case id {case.id!r} is that of {first} too", "Each case needs its own id")
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


def decoded(content: bytes, name: object, encoding: str = "utf-8") -> str:
    """The text in some bytes, without a byte order mark.

    Raises:
        InputError: They are no text in this encoding; names the line, and the encoding that it seems to be.
    """
    for mark, other in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if content.startswith(mark) and not encoding.lower().startswith("utf-16"):
            raise InputError(name, f"is in {other.upper()}", f"Save it as UTF-8, or give --encoding {other}")
    try:
        text = content.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except LookupError:
        raise InputError(
            "--encoding", f"no encoding {encoding!r}", "Such as: utf-8, cp1252, utf-16"
        ) from None
    except UnicodeError as error:
        line = content[: getattr(error, "start", 0)].count(b"\n") + 1
        hint = "Save it as UTF-8, or give --encoding cp1252 if it comes from Windows"
        raise InputError(name, f"line {line}: not {encoding.upper()}", hint) from None
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        raise InputError(name, f"line {line}: holds a NUL byte, so it is no text", "Give the text itself")
    return text


_Make = Callable[[], Case]


def _files(given: Path) -> list[Path]:
    """The files that one argument names.

    Raises:
        InputError: It does not exist, or is of another kind.
    """
    if given.is_dir():
        found = sorted(
            path
            for path in given.iterdir()
            if path.name.endswith(".txt") and not path.name.startswith(".") and not _is_beside(path)
        )
        if not found:
            raise InputError(given, "no .txt file in this folder", "Give a folder of notes, one a file")
        return found
    if not given.exists():
        names = [entry.name for entry in given.parent.iterdir()] if given.parent.is_dir() else []
        near = difflib.get_close_matches(given.name, names, n=1)
        raise InputError(
            given, "no such file or folder", f"Did you mean {given.with_name(near[0])}?" if near else ""
        )
    suffix = given.suffix.lower()
    if suffix in _CASE_FILES:
        raise InputError(given, "is a case file already", "`evigraph run SYSTEM FILE` reads it as it is")
    if suffix not in (".txt", *_TABLES):
        raise InputError(
            given,
            f"{suffix or 'no suffix'} is not read",
            "Notes are in .txt, .csv, .tsv, or folders of .txt",
        )
    return [given]


def _is_beside(path: Path) -> bool:
    """Whether it says something of the note beside it."""
    return path.name.endswith((_QUESTION, _NARRATIVE))


def _read_text(path: Path, question: str, encoding: str, _: ImportedNotes) -> Iterator[tuple[str, _Make]]:
    """The case of one text file."""

    def make() -> Case:
        own = {}
        for name, suffix in (("question", _QUESTION), ("narrative", _NARRATIVE)):
            beside = path.with_name(path.name.removesuffix(".txt") + suffix)
            own[name] = decoded(whole(beside, _MAX_NOTE), beside, encoding) if beside.is_file() else ""
        note = decoded(whole(path, 4 * _MAX_NOTE), path, encoding)
        if not own["question"].strip() and not own["narrative"].strip() and not question:
            name = path.name.removesuffix(".txt") + _QUESTION
            raise _Fault("has no question", f"Give --question TEXT for all, or write {name} beside it")
        return _case(path.name.removesuffix(".txt"), own["question"] or question, own["narrative"], note)

    yield "", make


def _read_table(
    path: Path, question: str, encoding: str, found: ImportedNotes
) -> Iterator[tuple[str, _Make]]:
    """The cases of a table, by the lines where they begin.

    Raises:
        InputError: It has no column `note`, or is no CSV.
    """
    text = decoded(whole(path, _MAX_TABLE), path, encoding)
    csv.field_size_limit(_MAX_TABLE)
    rows = csv.reader(io.StringIO(text, newline=""), _dialect(path, text), strict=True)
    header: list[str] | None = None
    begin, empty = 1, True
    try:
        for cells in rows:
            line, begin = begin, rows.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                _check_header(path, line, header)
                if unused := [name for name in header if name not in COLUMNS]:
                    found.unused[path] = unused
            else:
                empty = False
                yield f"line {line}", _of_row(line, header, cells, question)
    except csv.Error as error:
        hint = "A cell with line breaks or the delimiter in it needs double quotes around it"
        raise InputError(path, f"line {begin}: not CSV: {error}", hint) from None
    if header is None:
        raise InputError(path, "is empty", f"Its first line names the columns: {', '.join(COLUMNS)}")
    if empty:
        raise InputError(path, "names columns, and has no case below them", "Put one case on each line")


def _dialect(path: Path, text: str) -> type[csv.Dialect]:
    """Told by the first line, as texts in the others hold commas of their own."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if path.suffix.lower() == ".tsv":
        return csv.excel_tab
    try:
        delimiter = csv.Sniffer().sniff(first, _DELIMITERS).delimiter
    except csv.Error:
        return csv.excel
    return type("Sniffed", (csv.excel,), {"delimiter": delimiter})


def _check_header(path: Path, line: int, header: list[str]) -> None:
    twice = next((name for name in COLUMNS if header.count(name) > 1), None)
    if twice is not None:
        raise InputError(path, f"line {line}: two columns are called {twice!r}", "Rename or remove one")
    if "note" not in header:
        named = ", ".join(repr(printable(name)) for name in header[:8])
        remedy = f"The first line names the columns: {', '.join(COLUMNS)}"
        raise InputError(path, f"line {line}: no column 'note' among {named}", remedy)


def _of_row(line: int, header: list[str], cells: list[str], question: str) -> _Make:
    def make() -> Case:
        if len(cells) > len(header):
            fault = f"{plural(len(cells), 'cell')}, and the first line names {len(header)} columns"
            raise _Fault(fault, "A cell with the delimiter in it needs double quotes around it")
        row: Mapping[str, str] = dict(zip(header, cells, strict=False))
        case_id = row.get("id", "").strip() if "id" in header else str(line)
        if not case_id:
            raise _Fault("id: is empty", "Each case needs an id of its own")
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
    """Ids stand in commands, tables and addresses of pages."""
    try:
        case_id.encode()
    except UnicodeEncodeError:
        raise _Fault("its name is not UTF-8, so it makes no case id", "Rename the file") from None
    if len(case_id) > _MAX_ID:
        raise _Fault(f"case id of {len(case_id)} characters", f"At most {_MAX_ID} make an id")
    if _UNSAFE_ID.search(case_id):
        why = "it begins with a dash, or has a line break or control code"
        raise _Fault(f"{printable(case_id)!r} is no case id: {why}", "Rename it")
