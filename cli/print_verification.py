"""A verified text for people."""

from __future__ import annotations

from pathlib import Path

from rich.padding import Padding
from rich.table import Table

from cli.terminal import output, safe
from evals.verification.report import Report
from ranking.verify import Support, VerifiedLine

_COLOURS: dict[Support, str] = {"supported": "green", "weak": "yellow", "unsupported": "red"}


def print_verification(report: Report, rows: int, html: Path | None) -> None:
    """Print each line with its support, under it the sentences, and at the end the counts."""
    console, found = output(), report.verification
    for number, line in enumerate(found.lines, start=1):
        grid = Table.grid(padding=(0, 2))
        grid.add_column(justify="right", min_width=3)
        grid.add_column(min_width=len("unsupported"))
        grid.add_column(overflow="fold")
        grid.add_row(str(number), safe(line.support, _COLOURS[line.support]), safe(line.text, "bold"))
        console.print(grid)
        if line.evidence:
            console.print(Padding(_evidence(report, line, rows), (0, 0, 0, 5)))
        if len(line.evidence) > rows:
            console.print(f"     ... and {len(line.evidence) - rows} more: --rows {len(line.evidence)}")
    console.print()
    counts = ", ".join(f"{found.count(support)} {support}" for support in _COLOURS)
    held = "" if found.threshold is None else f", from probability {found.threshold:g} on"
    console.print(safe(f"{len(found.lines)} lines: {counts} (by {report.ranker}{held})"), soft_wrap=True)
    if found.threshold is None:
        console.print(
            safe(
                "its scores are no probabilities: what they name is a place to look, and no support", "yellow"
            ),
            soft_wrap=True,
        )
    cut = sum(line.cut for line in found.lines)
    if found.cut_sentences or cut:
        console.print(
            safe(
                f"over the ranker's limit of length, the end not read: {len(found.cut_sentences):,} sentences"
                f" and {cut:,} lines",
                "yellow",
            ),
            soft_wrap=True,
        )
    if html is not None:
        console.print(safe(str(html)), soft_wrap=True)


def _evidence(report: Report, line: VerifiedLine, rows: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", min_width=4)
    table.add_column(justify="right", min_width=5)
    table.add_column(overflow="fold")
    for one in line.evidence[:rows]:
        value = one.score if one.probability is None else one.probability
        text = report.verification.sentences[one.sentence]
        table.add_row(safe(report.ids[one.sentence], "dim"), f"{value:.2f}", safe(text))
    return table
