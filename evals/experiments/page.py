"""The tables of an experiment as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from evals.experiments.plots import headline_plot
from evals.experiments.render import cell_parts
from evals.experiments.tables import TITLES, PaperTable
from evals.pages.environment import drawn, page_environment


def render_page(tables: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """All tables with a plot each, one below the other."""
    return (
        page_environment("evals.experiments")
        .get_template("tables.html")
        .render(
            tables=[
                {
                    "it": table,
                    "title": TITLES[table.table],
                    "plot": drawn(headline_plot(table)) if table.headline in table.columns else None,
                }
                for table in tables
            ],
            notes=notes,
            parts=cell_parts,
        )
    )
