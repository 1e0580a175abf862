"""The evidence behind a verdict: what was read of which publication, and what it says."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.terminal import safe
from nodes.reading.aggregate_verdict import verdict_in_words
from runs.record.folder import Line

_COLOURS = {"supports": "green", "refutes": "red", "neutral": "dim", None: "yellow"}
_UNREAD = "not read"


def print_evidence(console: Console, line: Line) -> None:
    """Print one row for each passage, in the order of reading."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "year", "cited"):
        table.add_column(name, justify="right")
    table.add_column("reading")
    sure = any(one["probability"] is not None for one in line["evidence_passages"])
    if sure:
        table.add_column("P", justify="right")
    table.add_column("source", overflow="fold", max_width=30)
    table.add_column("passage", overflow="fold")
    for one in line["evidence_passages"]:
        row: list[str | Text] = [one["id"], _known(one["year"]), _known(one["citations"])]
        row.append(safe(one["reading"] or _UNREAD, _COLOURS[one["reading"]]))
        if sure:
            row.append("-" if one["probability"] is None else f"{one['probability']:.2f}")
        row += [safe(origin(one)), safe(one["text"])]
        table.add_row(*row)
    console.print()
    console.print(table)


def verdict_rows(line: Line) -> list[tuple[str, Text]]:
    """Verdict, what it was counted from, and its explanation."""
    counts, disagreement = line["reading_counts"], line["disagreement"]
    said = (
        f"{counts['supports']} support, {counts['neutral']} do not tell, {counts['refutes']} refute,"
        f" {counts['missing']} could not be read"
    )
    verdict = verdict_in_words(line)
    rows = [
        ("verdict", safe(verdict, "bold" if verdict == line["verdict"] else "")),
        ("readings", safe(said)),
    ]
    if disagreement["entropy"] is not None:
        rows.append(
            ("differ", safe(f"entropy {disagreement['entropy']:.2f}, margin {disagreement['margin']:.2f}"))
        )
        rows += [
            (f"by {name}", safe(_groups(disagreement[key])))
            for name, key in (("year", "by_year"), ("kind", "by_strength"))
        ]
    if line.get("explanation"):
        rows.append(("explained", safe(line["explanation"])))
    return rows


def origin(passage: dict[str, Any]) -> str:
    """Where a passage is from: journal or data set, and document id."""
    return f"{passage['source']} {passage['document']}".strip()


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def _groups(groups: dict[str, dict[str, int]]) -> str:
    return "; ".join(
        f"{name}: " + ", ".join(f"{count} {reading}" for reading, count in counts.items() if count)
        for name, counts in groups.items()
    )
