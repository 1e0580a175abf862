"""Printing for commands: consoles, safe text, tables, numbers."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table as RichTable
from rich.text import Text

from cases.texts import plural as plural
from cases.texts import printable, printable_json
from storage.url_names import with_urls

if TYPE_CHECKING:
    from evals.pages.tables import Table

WIDE = 110
"""Letters from which on a terminal has room for wide tables."""

_GAP = 2
"""Blanks between names and values."""

_LEAST_ROOM = 20
"""Letters of a line of a value, however narrow the terminal."""

_LEVELS = ("debug", "info", "warning", "error")


def output() -> Console:
    """Results: standard output."""
    return Console(highlight=False)


def messages() -> Console:
    """Progress and messages: standard error."""
    return Console(stderr=True, highlight=False)


class LogHandler(logging.Handler):
    """Prints log messages as commands print their own, and above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message on standard error."""
        messages().print(safe(self.format(record)), soft_wrap=True)


def show_log(*, verbose: bool = False) -> None:
    """Print log messages from the level on that EVIGRAPH_LOG names, else from `info` on.

    Raises:
        InputError: The level is unknown.
    """
    from storage.errors import InputError

    level = "debug" if verbose else os.environ.get("EVIGRAPH_LOG") or "info"
    if level not in _LEVELS:
        raise InputError("EVIGRAPH_LOG", f"no level {level!r}", f"Levels are: {', '.join(_LEVELS)}")
    logger = logging.getLogger("evigraph")
    logger.setLevel(level.upper())
    logger.propagate = False
    logger.handlers = [LogHandler()]


def safe(text: str, style: str = "") -> Text:
    """Text of cases and models: never markup, never control codes."""
    return Text(printable(with_urls(text)), style=style)


def print_line(text: str = "", style: str = "", *, wrap: bool = False) -> None:
    """Print text on standard output, never as markup, on one line however long.

    A command or a path in two lines could not be copied; prose may `wrap` between words.
    """
    output().print(safe(text, style), soft_wrap=not wrap)


def print_message(text: str, style: str = "", *, wrap: bool = False) -> None:
    """Print text on standard error, in the same way."""
    messages().print(safe(text, style), soft_wrap=not wrap)


def print_table(
    table: Table, *, title: str = "", below: bool = False, header: bool = True, gap: int = 2
) -> None:
    """Print a table. Whatever its cells hold, it is text: never markup, never control codes.

    Args:
        table: Cells of the recipe get an asterisk, and clear differences are bold.
        title: Above the table.
        below: Whether secondary lines of a value go below it instead of next to it.
        header: Whether columns have headings.
        gap: Blanks between columns, an even number.
    """
    shown = RichTable(
        title=safe(title) if title else None,
        title_justify="left",
        box=None,
        pad_edge=False,
        show_header=header,
        padding=(0, gap // 2),
    )
    for column in table.columns:
        shown.add_column(
            safe(column.heading),
            justify="right" if column.kind == "number" else "left",
            overflow="ellipsis" if column.kind == "number" else "fold",
            no_wrap=not column.wraps,
        )
    for row in table.cells:
        shown.add_row(
            *(
                safe(
                    (cell.text if below else cell.line) + (" *" if cell.marked else ""),
                    "bold" if cell.tone else "",
                )
                for cell in row
            )
        )
        for line in range(max(len(cell.below) for cell in row) if below else 0):
            shown.add_row(*(safe(cell.below[line] if line < len(cell.below) else "", "dim") for cell in row))
    output().print(shown)


def duration(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 07 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def print_rows(
    heads: Sequence[str],
    rows: Iterable[Sequence[Text | str]],
    *,
    right: Sequence[str] = (),
    title: str = "",
    below: bool = False,
) -> None:
    """Print a table whose long cells are folded; a cell is a text, or one with a style.

    Args:
        heads: Of the columns.
        rows: As many cells as there are columns.
        right: Heads of right-aligned columns.
        title: Above the table.
        below: Put the last cell on a separate line under its row, where the terminal is narrow.
    """
    console = output()
    below = below and console.width < WIDE
    shown = RichTable(title=safe(title) if title else None, title_justify="left", box=None, pad_edge=False)
    for head in heads[:-1] if below else heads:
        shown.add_column(
            safe(head), justify="right" if head in right else "left", overflow="fold", no_wrap=below
        )
    texts = [safe(heads[-1])]
    for row in rows:
        cells = [cell if isinstance(cell, Text) else safe(cell) for cell in row]
        texts += [cells.pop()] if below else []
        shown.add_row(*cells)
    if not below:
        console.print(shown)
        return
    for line, text in zip(console.render_lines(shown, pad=False), texts, strict=True):
        console.print(Segments([*line, Segment.line()]), end="")
        console.print(Padding(text, (0, 0, 0, 4)))


def print_facts(facts: Iterable[tuple[str, Text | str]]) -> None:
    """Print names with their values.

    These wrap between words, but for commands and words that are longer than a line, such as paths: a break
    in them would be copied as well.
    """
    console = output()
    texts = [(safe(name, "bold"), value if isinstance(value, Text) else safe(value)) for name, value in facts]
    indent = max((name.cell_len for name, _ in texts), default=0) + _GAP
    for name, value in texts:
        head = name
        for line in value.split(allow_blank=True):
            room = max(console.width - indent, _LEAST_ROOM)
            whole = line.plain.startswith("evigraph ") or any(len(word) > room for word in line.plain.split())
            for part in [line] if whole else line.wrap(console, room):
                head.pad_right(indent - head.cell_len)
                part.rstrip()
                console.print(head + part if part else head, soft_wrap=True)
                head = Text()


def print_json(value: Any) -> None:
    """One JSON object on standard output; what could drive a terminal is escaped in its strings."""
    import json

    sys.stdout.write(printable_json(with_urls(json.dumps(value, ensure_ascii=False))) + "\n")


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a command.

    Attributes:
        content: The object that `--json` prints, or what makes it.
        show: Prints the result for people.
        code: Exit code of the process.
    """

    content: Any
    show: Callable[[], object]
    code: int = 0


def emit(result: Result, *, as_json: bool) -> None:
    """Print a result in one of its two forms, and exit with its code."""
    if as_json:
        print_json(result.content() if callable(result.content) else result.content)
    else:
        result.show()
    if result.code:
        raise typer.Exit(result.code)
