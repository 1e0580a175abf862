"""JSON lines, packed with gzip or not: faults located by file, line and field, and the offsets of lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cases.formats.json_border import first_fault
from storage.errors import InputError
from storage.files import MAX_LINE_BYTES, DamagedFile, Meter, lines, opened
from storage.unique_keys import RepeatedKey, unique

_GZIP = b"\x1f\x8b"

_Fields = TypeVar("_Fields", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One object of a file."""

    path: Path
    number: int
    fields: dict[str, object]

    def fault(self, fault: str, remedy: str = "") -> InputError:
        """An error that names this line."""
        return InputError(self.path, f"line {self.number}: {fault}", remedy)

    def read_as(self, model: type[_Fields], known: bool = False) -> _Fields:
        """Check the fields.

        Args:
            model: The fields that are read.
            known: Whether an unknown field's nearest known one is proposed; for models that forbid others.

        Raises:
            InputError: A field is missing or wrong.
        """
        try:
            return model.model_validate(self.fields)
        except ValidationError as error:
            raise self.fault(first_fault(error, {"": model.model_fields} if known else None)) from error


class JsonFault(Exception):
    """A line is not a JSON object: its place, the reason, and a remedy if needed."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault)
        self.fault, self.remedy = fault, remedy


def text_lines(path: Path) -> Iterator[tuple[int, str | None]]:
    """Lines that are not blank with their numbers from 1, without a byte order mark; None if one is too long.

    Raises:
        InputError: The file cannot be read or is damaged, or a line is not UTF-8.
    """
    try:
        yield from _texts(path)
    except DamagedFile as error:
        raise InputError(path, f"damaged gzip file: {error}", "Copy or download it again") from error


def _texts(path: Path) -> Iterator[tuple[int, str | None]]:
    with opened(path) as file:
        packed = file.read(len(_GZIP)) == _GZIP
    for number, line in enumerate(lines(path, Meter(), packed), start=1):
        if len(line) > MAX_LINE_BYTES:
            yield number, None
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            place = f"line {number}, byte {error.start + 1}"
            raise InputError(path, f"{place}: not UTF-8", "Save the file as UTF-8") from error
        if text.strip():
            yield number, text


def json_object(text: str | None, number: int) -> dict[str, object]:
    """The object in a line; None means that it is too long.

    Raises:
        JsonFault: There is none.
    """
    place = f"line {number}"
    if text is None:
        raise JsonFault(f"{place}: longer than {MAX_LINE_BYTES >> 20} MB")
    try:
        fields = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise JsonFault(f"{place}, column {error.colno}: {error.msg}") from error
    except RepeatedKey as error:
        raise JsonFault(f"{place}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise JsonFault(f"{place}: cannot be read as JSON: {error}") from error
    if not isinstance(fields, dict):
        raise JsonFault(f"{place}: not a JSON object", "Put one JSON object on each line")
    return fields


def read_json_lines(path: Path) -> Iterator[JsonLine]:
    """Read the objects of `path` in file order, holding one at a time; blank lines are passed over.

    Raises:
        InputError: The file cannot be read, is damaged, or a line is not a JSON object.
    """
    for number, text in text_lines(path):
        try:
            yield JsonLine(path, number, json_object(text, number))
        except JsonFault as error:
            raise InputError(path, error.fault, error.remedy) from error


class UsedIds:
    """The ids of a file read so far."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def add(self, line: JsonLine, field: str, value: str) -> None:
        """Take the id of a line.

        Raises:
            InputError: An earlier line has it.
        """
        first = self._lines.setdefault(value, line.number)
        if first != line.number:
            raise line.fault(f"{field}: {value!r} is in line {first} too", "Keep one of them")

    def __len__(self) -> int:
        return len(self._lines)


_SUFFIXES = (".jsonl", ".jsonl.gz")


def json_lines_named(folder: Path, stem: str) -> list[Path]:
    """The JSON lines of `folder` whose names begin with `stem`, by name."""
    return sorted(
        path
        for path in folder.glob(f"{stem}*")
        if path.name.endswith(_SUFFIXES) and not path.name.startswith(".") and path.is_file()
    )


def the_one_named(folder: Path, stem: str) -> Path:
    """The only such file.

    Raises:
        InputError: There is none, or several.
    """
    found = json_lines_named(folder, stem)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(folder, f"no {stem}*.jsonl or {stem}*.jsonl.gz in this folder", "Put it there")
    names = ", ".join(path.name for path in found)
    raise InputError(folder, f"several {stem} files in this folder: {names}", "Name the one to read")
