"""A report of search as JSON for programs and as a page for people; numbers alone, no text of a question."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cases.files import write_atomically
from evals.pages.environment import drawn, page_environment
from evals.search.plots import depth_plot, ensemble_plot, learning_curve, retrieval_plot
from evals.search.report import MAP, NDCG, SearchReport, SearchTable, Value
from evals.statistics.bootstrap import Interval


def as_json(report: SearchReport) -> dict[str, Any]:
    """One object; values from 0 to 1, intervals null where there is none."""
    return {
        **{name: value for name, value in asdict(report).items() if name != "tables"},
        "tables": {
            table.name: [
                {"name": row.name, "values": {column: _value(its) for column, its in row.values.items()}}
                for row in table.rows
            ]
            for table in report.tables
        },
    }


def write_page(path: Path, report: SearchReport) -> None:
    """Write the page.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, [render(report).encode()])


def render(report: SearchReport) -> str:
    """The page."""
    return (
        page_environment("evals.search")
        .get_template("search.html")
        .render(
            report=report,
            plots={table.name: [drawn(plot) for plot in _plots(report, table)] for table in report.tables},
            cell=cell,
            against=against,
        )
    )


def cell(value: Value | None) -> tuple[str, str]:
    """The value with three digits, and its interval in brackets or nothing."""
    if value is None:
        return "-", ""
    its = value.interval
    return f"{its.value:.3f}", "" if math.isnan(its.low) else f"[{its.low:.3f}, {its.high:.3f}]"


def against(value: Value | None) -> str:
    """The difference from the first row and its p-value; empty in that row."""
    if value is None or value.difference is None or value.p_value is None:
        return ""
    p = "p < 0.001" if value.p_value < 0.001 else f"p = {value.p_value:.3f}"
    return f"{value.difference.value:+.3f}, {p}"


def _plots(report: SearchReport, table: SearchTable) -> list[str]:
    if table.name == "retrieval":
        return [retrieval_plot(table)]
    if table.name == "ensemble":
        return [ensemble_plot(table)]
    plots = [depth_plot(table, MAP, report.depths)] if len(report.depths) > 1 else []
    if len(set(report.trained_on.values())) > 1:
        plots.append(learning_curve(table, f"{NDCG} of {max(report.depths):,}", report.trained_on))
    return plots


def _value(value: Value) -> dict[str, Any]:
    found = _interval(value.interval)
    if value.difference is not None:
        found |= {"difference": _interval(value.difference), "p_value": value.p_value}
    return found


def _interval(its: Interval) -> dict[str, Any]:
    return {"value": its.value, "interval": None if math.isnan(its.low) else [its.low, its.high]}
