from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from cli.terminal import print_table
from evals.pages.page import render_page
from evals.pages.tables import (
    PERCENT,
    POINTS,
    SHARES,
    Cell,
    Column,
    Format,
    Table,
    columns,
    comma_separated,
    interval_object,
    markdown,
    p_text,
    some,
)
from evals.statistics.bootstrap import Interval

WIDE = Interval(50.0, 25.0, 75.0, "bca")
ALONE = Interval(50.0, math.nan, math.nan, "none")
TABLE = Table(
    [*columns("", "F1"), Column("F1 vs first", short="vs")],
    [
        [Cell("[b]first\x1b[0m", marked=True), POINTS.cell(WIDE), ""],
        ["other", POINTS.cell(ALONE), Cell("+1.00", tone="up")],
    ],
    title="Scores",
    left_out=3,
)


@pytest.mark.parametrize(
    ("form", "value", "signed", "text"),
    [
        (POINTS, 12.345678, False, "12.35"),
        (SHARES, 12.345678, True, "+0.1235"),
        (PERCENT, 0.5, False, "50.0"),
        (Format(0), -1.6, True, "-2"),
    ],
)
def test_a_format_is_a_number_of_digits_in_a_unit(
    form: Format, value: float, signed: bool, text: str
) -> None:
    assert form.number(value, signed=signed) == text


def test_without_an_interval_there_are_no_brackets() -> None:
    assert POINTS.cell(WIDE) == Cell("50.00", ("[25.00, 75.00]",))
    assert POINTS.cell(ALONE) == Cell("50.00")
    assert POINTS.cell(None) == Cell("-")
    assert POINTS.bracket(None) == ""
    assert interval_object(ALONE) == {"value": 50.0, "interval": None}
    assert interval_object(WIDE) == {"value": 50.0, "interval": [25.0, 75.0]}


def test_small_p_values_are_bounds() -> None:
    assert [p_text(0.0001), p_text(0.25), p_text(0.25, equals=True)] == ["< 0.001", "0.250", "= 0.250"]


def test_some_names_stand_for_all() -> None:
    assert [some("abc"), some("abcd"), some("abcd", 1)] == ["a, b, c", "a, b, c, ...", "a, ..."]


def test_markdown_puts_an_interval_beside_its_value() -> None:
    assert markdown(TABLE).splitlines() == [
        "|  | F1 | F1 vs first |",
        "|---|--:|--:|",
        "| [b]first\x1b[0m | 50.00 [25.00, 75.00] |  |",
        "| other | 50.00 | +1.00 |",
    ]


def test_csv_quotes_what_has_commas() -> None:
    assert comma_separated(["a", "b"], [["1,5", 2]]) == 'a,b\n"1,5",2\n'


def test_a_terminal_shows_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(TABLE, title="scores")
    out = capsys.readouterr().out
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == "scores"
    assert lines[2] == "[b]first\N{REPLACEMENT CHARACTER}[0m *  50.00 [25.00, 75.00]"
    assert lines[3].split() == ["other", "50.00", "+1.00"]


def test_a_terminal_shows_intervals_in_a_line_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(TABLE, below=True)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split()[-1] for line in lines[1:]] == ["50.00", "75.00]", "+1.00"]


def test_a_page_shows_every_part_of_a_table() -> None:
    found = SimpleNamespace(
        run="run", cases=9, labelled_cases=9, threshold=0.5, weights="1/0/0", own_rows=(), rows=(1,)
    )
    page = render_page("attribution.html", found=found, curve=lambda *_: "", scores=lambda _: TABLE)
    assert "<h2>Scores</h2>" in page
    assert "[b]first\N{REPLACEMENT CHARACTER}[0m (the recipe" in page
    assert '50.00<br><span class="muted">[25.00, 75.00]</span>' in page
    assert '<td class="n up">+1.00</td>' in page
    assert "3 more of 5 are not shown." in page
