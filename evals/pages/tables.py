"""One kind of table for terminal, page, Markdown and CSV, and how its numbers are written."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    # It brings numpy along, which many a command does without.
    from evals.statistics.bootstrap import Interval

Kind = Literal["number", "text", "name", "id", "answer"]
"""Kind of a column. Numbers are right-aligned; names do not wrap on pages; ids may run in either direction;
answers keep their line breaks."""

Tone = Literal["", "up", "down", "strong"]
"""Tone of a cell: `up` and `down` for a clear difference, `strong` if its row has one."""

NO_VALUE = "-"


class Cell(NamedTuple):
    """A value as text; its lines, if there are more, are alternatives.

    Attributes:
        below: Secondary lines, such as its interval.
        marked: Whether it is the recipe's.
    """

    text: str
    below: tuple[str, ...] = ()
    tone: Tone = ""
    marked: bool = False

    @property
    def line(self) -> str:
        """All of it on one line."""
        return " ".join(filter(None, (self.text.replace("\n", " / "), *self.below)))


class Format(NamedTuple):
    """How values of one unit are written: `digits` after the point of `value * times / over`."""

    digits: int
    times: float = 1
    over: float = 1

    def number(self, value: float, *, signed: bool = False) -> str:
        return f"{value * self.times / self.over:{'+' if signed else ''},.{self.digits}f}"

    def bracket(self, interval: Interval | None, *, signed: bool = False) -> str:
        """`[low, high]`; empty without an interval."""
        if interval is None or math.isnan(interval.low):
            return ""
        return f"[{', '.join(self.number(end, signed=signed) for end in (interval.low, interval.high))}]"

    def cell(self, interval: Interval | None, *, signed: bool = False) -> Cell:
        """The value over its interval."""
        if interval is None:
            return Cell(NO_VALUE)
        bracket = self.bracket(interval, signed=signed)
        return Cell(self.number(interval.value, signed=signed), (bracket,) if bracket else ())


POINTS = Format(2)
SHARES = Format(4, over=100)
"""Points of 100 as shares of 1."""

PERCENT = Format(1, times=100)
"""Shares of 1 as points of 100."""


class Column(NamedTuple):
    """A column.

    Attributes:
        short: Title where there is little room; None is the title itself.
        wraps: Whether a terminal without room may break it; if not, other columns make room.
        form: How its numbers are written; None for p-values.
        signed: Whether numbers have their sign.
    """

    title: str
    kind: Kind = "number"
    short: str | None = None
    wraps: bool = True
    form: Format | None = POINTS
    signed: bool = False

    @property
    def heading(self) -> str:
        """Its title where there is little room."""
        return self.title if self.short is None else self.short

    def cell(self, value: Value) -> Cell:
        if isinstance(value, Cell):
            return value
        if value is None or isinstance(value, str):
            return Cell(NO_VALUE if value is None else value)
        if isinstance(value, tuple):
            return (self.form or POINTS).cell(value, signed=self.signed)
        return Cell(p_text(value) if self.form is None else self.form.number(value, signed=self.signed))


Value: TypeAlias = "Cell | str | Interval | float | None"
Row = Sequence[Value]
"""One value per column. Text is shown unchanged, None as missing."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns.

    Attributes:
        title: Heads the table on a page.
        caption: Note on all rows, shown above them.
        left_out: Rows that are not shown.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    caption: str = ""
    left_out: int = 0

    @property
    def cells(self) -> list[list[Cell]]:
        return [
            [column.cell(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows
        ]


def columns(first: str, *numbers: str, form: Format = POINTS) -> list[Column]:
    """A column of names, and columns of numbers."""
    return [Column(first, "text"), *(Column(title, form=form) for title in numbers)]


def p_text(p_value: float, *, equals: bool = False) -> str:
    """`0.012`, or `< 0.001`; with `= ` before a number within a sentence."""
    if p_value < 0.001:
        return "< 0.001"
    return f"= {p_value:.3f}" if equals else f"{p_value:.3f}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and dots for others."""
    return ", ".join(names[:most]) + (", ..." if names[most:] else "")


def markdown(table: Table) -> str:
    """Without title and caption; all columns but the first are right-aligned."""
    heads = [column.title for column in table.columns]
    lines = [heads, *([cell.line for cell in row] for row in table.cells)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" + "|--:" * (len(heads) - 1) + "|", *body])


def comma_separated(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """CSV with a line of heads, if there are any.

    No cell is a formula: a spreadsheet would execute a name or a path.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    if heads:
        writer.writerow(map(no_formula, heads))
    writer.writerows(map(no_formula, line) for line in lines)
    return written.getvalue()


_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d., %\[\]()+-]*$)")
"""How a cell begins that a spreadsheet would run; signed numbers and intervals are none."""


def no_formula(cell: object) -> object:
    """A cell as CSV may hold it: a text that a spreadsheet would run begins with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def interval_object(interval: Interval) -> dict[str, object]:
    """For JSON; the interval is null where there is none."""
    ends = None if math.isnan(interval.low) else [interval.low, interval.high]
    return {"value": interval.value, "interval": ends}


def numbers(table: Table) -> Iterator[list[str]]:
    """Every number for CSV: row, column, value and the ends of its interval, which may be empty."""
    for row in table.rows:
        name = table.columns[0].cell(row[0]).text
        for column, value in zip(table.columns[1:], row[1:], strict=True):
            if value is None or isinstance(value, Cell | str):
                continue
            found = [value, math.nan, math.nan] if isinstance(value, int | float) else value[:3]
            form = Format(4) if column.form is None else column.form
            texts = ("" if math.isnan(one) else form.number(one).replace(",", "") for one in found)
            yield [name, column.title, *texts]
