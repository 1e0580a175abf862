"""A report of retrieval as JSON for programs and as a page for people; numbers alone, no text of a case."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

from cases.files import write_atomically
from evals.experiments.render import cell_parts
from evals.pages.environment import drawn, page_environment
from evals.retrieval.plots import floor_plot
from evals.retrieval.report import COLUMNS, RetrievalReport, RetrievalRow
from evals.retrieval.strategies import FLOORS
from evals.statistics.bootstrap import Interval


def as_json(report: RetrievalReport) -> dict[str, Any]:
    """One object; values in points of 100, intervals null where there is none."""
    return {
        "ranker": report.ranker,
        "query": report.query,
        "examples": report.examples,
        "unlabelled": report.unlabelled,
        "sentences": report.sentences,
        "evidence": report.evidence,
        "longest": report.longest,
        "tables": {table.name: [_row(row) for row in table.rows] for table in report.tables},
        "floors": {
            curve.name: [
                {"floor": floor, "precision": precision, "recall": recall, "f1": f1}
                for floor, precision, recall, f1 in zip(
                    FLOORS, curve.precision, curve.recall, curve.f1, strict=True
                )
            ]
            for curve in report.floors
        },
    }


def write_page(path: Path, report: RetrievalReport) -> None:
    """Write the page.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, [render(report).encode()])


def render(report: RetrievalReport) -> str:
    """The page."""
    return (
        page_environment("evals.retrieval")
        .get_template("retrieval.html")
        .render(
            report=report,
            columns=list(COLUMNS),
            floors=FLOORS,
            plot=drawn(floor_plot(report.floors)),
            parts=partial(cell_parts, unit="points"),
        )
    )


def _row(row: RetrievalRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "cutoff": row.cutoff,
        "retrieved": row.retrieved,
        "values": {column: _value(its) for column, its in row.values.items()},
    }


def _value(its: Interval) -> dict[str, Any]:
    return {"value": its.value, "interval": None if math.isnan(its.low) else [its.low, its.high]}
