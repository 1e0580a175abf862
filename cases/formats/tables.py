"""Tables of CSV: lines under a header, with a delimiter that the first line tells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from cases.texts import printable
from storage.errors import InputError

TABLE_SUFFIXES = (".csv", ".tsv")
_MAX_CELL = 1 << 28
"""Characters; a note is one cell. The limit holds for the whole process."""
_DELIMITERS = ",;\t|"


def table_rows(
    path: Path, text: str, columns: Sequence[str], needed: Sequence[str], remedy: str
) -> Iterator[tuple[int, list[str]]]:
    """The header of a table, in small letters, and the cells of its lines, by the lines where they begin.

    Args:
        path: Named in errors.
        text: The whole table.
        columns: Those that are read, each at most once.
        needed: Those without which there is nothing to read.
        remedy: Where one is missing.

    Raises:
        InputError: It is not CSV, or its columns are wrong.
    """
    csv.field_size_limit(_MAX_CELL)
    rows = csv.reader(io.StringIO(text, newline=""), _dialect(path, text), strict=True)
    begin, header = 1, None
    try:
        for cells in rows:
            line, begin = begin, rows.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = cells = [cell.strip().lower() for cell in cells]
                _check_header(path, line, header, columns, needed, remedy)
            yield line, cells
    except csv.Error as error:
        hint = "A cell with line breaks or the delimiter in it needs double quotes around it"
        raise InputError(path, f"line {begin}: not CSV: {error}", hint) from None
    if header is None:
        raise InputError(path, "is empty", remedy)


def _dialect(path: Path, text: str) -> type[csv.Dialect]:
    """Told by the first line, as cells below it hold commas too."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if path.suffix.lower() == ".tsv":
        return csv.excel_tab
    try:
        delimiter = csv.Sniffer().sniff(first, _DELIMITERS).delimiter
    except csv.Error:
        return csv.excel
    return type("Sniffed", (csv.excel,), {"delimiter": delimiter})


def _check_header(
    path: Path, line: int, header: list[str], columns: Sequence[str], needed: Sequence[str], remedy: str
) -> None:
    twice = next((name for name in columns if header.count(name) > 1), None)
    if twice is not None:
        raise InputError(path, f"line {line}: two columns are called {twice!r}", "Rename or remove one")
    missing = next((name for name in needed if name not in header), None)
    if missing is not None:
        named = ", ".join(repr(printable(name)) for name in header[:8])
        raise InputError(path, f"line {line}: no column {missing!r} among {named}", remedy)
