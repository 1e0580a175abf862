"""Tables of a study as Markdown for people, as CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evals.experiments.render import cell_text
from evals.experiments.tables import Unit
from evals.studies.tables import Block, StudyRow, StudyTable, labels_compared


def markdown(tables: Sequence[StudyTable], notes: Sequence[str]) -> str:
    """All tables, one below the other."""
    parts = ["# Tables of the study\n", *(f"{note}\n" for note in notes)]
    for table in tables:
        parts += [f"## {table.title}\n", f"{table.caption}\n"]
        for block in table.blocks:
            parts += [_block(block, table.unit), ""]
        if table.unfinished:
            parts.append(f"Not finished, and left out: {', '.join(table.unfinished)}.\n")
    return "\n".join(parts)


def comma_separated(tables: Sequence[StudyTable]) -> str:
    """One line a value, and one a comparison (column `vs ROW`, with p); all in points of 100."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["table", "block", "row", "column", "value", "low", "high", "p", "seeds", "cases"])
    for table in tables:
        for block in table.blocks:
            for row in block.rows:
                place = [table.table, block.title, row.label]
                size = [row.seeds, block.cases]
                for column, value in zip(block.columns, row.values, strict=True):
                    numbers = ["" if math.isnan(part) else f"{part:.4f}" for part in value[:3]]
                    writer.writerow([*place, column, *numbers, "", *size])
                for one in row.comparisons:
                    numbers = [f"{one.difference:.4f}", "", "", f"{one.p_value:.4f}"]
                    writer.writerow([*place, f"{block.headline} vs {one.against}", *numbers, *size])
    return written.getvalue()


def as_object(table: StudyTable) -> dict[str, Any]:
    """For programs; values in points of 100, ends of intervals None where there is none."""
    return {
        **asdict(table),
        "blocks": [
            {
                **asdict(block),
                "rows": [
                    {
                        **asdict(row),
                        "values": {
                            column: {
                                "value": value.value,
                                "low": None if math.isnan(value.low) else value.low,
                                "high": None if math.isnan(value.high) else value.high,
                            }
                            for column, value in zip(block.columns, row.values, strict=True)
                        },
                    }
                    for row in block.rows
                ],
            }
            for block in table.blocks
        ],
    }


def comparison_texts(block: Block, row: StudyRow, unit: Unit) -> list[str]:
    """The row's differences with p, one for each row that some row is held against."""
    found = {one.against: one for one in row.comparisons}
    texts = []
    for label in labels_compared(block):
        one = found.get(label)
        if one is None:
            texts.append("")
            continue
        shown = f"{one.difference / 100:+.4f}" if unit == "share" else f"{one.difference:+.2f}"
        texts.append(f"{shown} (p {one.p_value:.3f})")
    return texts


def row_title(row: StudyRow) -> str:
    """The row's label, with the number of its seeds where there are several."""
    return f"{row.label} ({row.seeds} seeds)" if row.seeds > 1 else row.label


def cutoff_texts(row: StudyRow) -> tuple[str, ...]:
    """What selected, one a seed; where all are equal, once."""
    return row.cutoffs[:1] if len(set(row.cutoffs)) == 1 else row.cutoffs


def _block(block: Block, unit: Unit) -> str:
    compared = [f"{block.headline} vs {label}" for label in labels_compared(block)]
    heads = ["", *block.columns, "Cut-off", *compared]
    lines = [f"### {block.title}\n"] if block.title else []
    lines += [
        f"{block.cases} cases in {block.groups} groups.\n",
        "| " + " | ".join(heads) + " |",
        "|---" + "|--:" * (len(heads) - 1) + "|",
    ]
    for row in block.rows:
        cells = [
            row_title(row),
            *(cell_text(value, unit) for value in row.values),
            " / ".join(cutoff_texts(row)),
            *comparison_texts(block, row, unit),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
