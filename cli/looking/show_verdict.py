"""The evidence behind a verdict: passages of publications and their readings."""

from __future__ import annotations

from rich.text import Text

from cli.terminal import print_line, print_rows, safe
from nodes.reading.aggregate_verdict import verdict_in_words
from runs.record.folder import Line

_COLOURS = {"supports": "green", "refutes": "red", "neutral": "dim", None: "yellow"}
_UNREAD = "not read"


def print_evidence(line: Line) -> None:
    """Print one row for each passage, in the order of reading."""
    passages = line["evidence_passages"]
    sure = any(one["probability"] is not None for one in passages)
    rows: list[list[Text | str]] = []
    for one in passages:
        row: list[Text | str] = [one["id"], _known(one["year"]), _known(one["citations"])]
        row.append(safe(one["reading"] or _UNREAD, _COLOURS[one["reading"]]))
        if sure:
            row.append(_known(one["probability"], ".2f"))
        rows.append([*row, f"{one['source']} {one['document']}".strip(), one["text"]])
    heads = ("id", "year", "cited", "reading", *(["P"] if sure else []), "source", "passage")
    print_line()
    print_rows(heads, rows, right=("id", "year", "cited", "P"))


def verdict_rows(line: Line) -> list[tuple[str, Text]]:
    """Verdict, its counts, and its explanation."""
    counts, disagreement = line["reading_counts"], line["disagreement"]
    said = (
        f"{counts['supports']} support, {counts['neutral']} are neutral, {counts['refutes']} refute,"
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


def _known(number: float | None, form: str = "") -> str:
    return "-" if number is None else format(number, form)


def _groups(groups: dict[str, dict[str, int]]) -> str:
    return "; ".join(
        f"{name}: " + ", ".join(f"{count} {reading}" for reading, count in counts.items() if count)
        for name, counts in groups.items()
    )
