"""One kind of table for terminal, page, Markdown and CSV, and how its numbers are written."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    # It brings numpy along, which many a command does without.
    from evals.statistics.bootstrap import Interval

Kind = Literal["number", "text", "name", "id", "answer"]
"""Of a column. Numbers are right-aligned; names do not wrap on pages; ids may run in either direction;
answers keep their line breaks."""

Tone = Literal["", "up", "down", "strong"]
"""Of a cell: `up` and `down` where a difference is clear, `strong` where its row has one."""

NO_VALUE = "-"


class Cell(NamedTuple):
    """A value as text; its lines, if there are more, are alternatives.

    Attributes:
        below: Lines of less weight that belong to it, such as its interval.
        marked: Whether it is that of the recipe.
    """

    text: str
    below: tuple[str, ...] = ()
    tone: Tone = ""
    marked: bool = False

    @property
    def line(self) -> str:
        """All of it on one line."""
        return " ".join(filter(None, (self.text.replace("\n", " / "), *self.below)))


Row = Sequence[Cell | str]
"""As many as there are columns."""


class Column(NamedTuple):
    """A column.

    Attributes:
        short: Title where there is little room; None is the title itself.
        group: Title over neighbouring columns of the same group.
        wraps: Whether a terminal without room may break it; if not, other columns make room.
    """

    title: str
    kind: Kind = "number"
    short: str | None = None
    group: str = ""
    wraps: bool = True

    @property
    def heading(self) -> str:
        """Its title where there is little room."""
        return self.title if self.short is None else self.short


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns.

    Attributes:
        title: Heads the table on a page.
        caption: What all rows share; stands above them.
        left_out: Rows that are not shown.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    caption: str = ""
    left_out: int = 0
    kind: ClassVar = "table"

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, with text as cells."""
        return [[one if isinstance(one, Cell) else Cell(one) for one in row] for row in self.rows]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Titles over columns with how many columns each spans; empty where no column has one."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found if any(title for title, _ in found) else []


def columns(first: str, *numbers: str) -> list[Column]:
    """A column of names, and columns of numbers."""
    return [Column(first, "text"), *map(Column, numbers)]


class Format(NamedTuple):
    """How values of one unit are written: `digits` after the point of `value * times / over`."""

    digits: int
    times: float = 1
    over: float = 1

    def number(self, value: float, *, signed: bool = False) -> str:
        """The value alone."""
        return f"{value * self.times / self.over:{'+' if signed else ''}.{self.digits}f}"

    def bracket(self, interval: Interval | None, *, signed: bool = False) -> str:
        """`[low, high]`; empty where there is no interval."""
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


def p_text(p_value: float, *, equals: bool = False) -> str:
    """`0.012`, or `< 0.001`; with `= ` before a number where it stands in a sentence."""
    if p_value < 0.001:
        return "< 0.001"
    return f"= {p_value:.3f}" if equals else f"{p_value:.3f}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and dots for others."""
    return ", ".join(names[:most]) + (", ..." if names[most:] else "")


def markdown(table: Table) -> str:
    """Without title and caption; all columns but the first are right-aligned."""
    heads = [f"{column.group} {column.title}".strip() for column in table.columns]
    lines = [heads, *([cell.line for cell in row] for row in table.cells)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" + "|--:" * (len(heads) - 1) + "|", *body])


def comma_separated(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """CSV with a line of heads. No cell is a formula: a spreadsheet would run what a name or a path says."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
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
