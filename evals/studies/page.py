"""The tables of a study as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evals.experiments.render import cell_parts
from evals.pages.environment import drawn, page_environment
from evals.pages.interval_plot import interval_plot
from evals.studies.render import comparison_texts, cutoff_texts, row_title
from evals.studies.tables import Block, StudyTable, interval_of, labels_compared


def render_page(tables: Sequence[StudyTable], notes: Sequence[str], curves: str | None) -> str:
    """All tables with a plot for each block, then the training curves.

    Args:
        tables: In order.
        notes: What went wrong, or is missing.
        curves: A plot; None where nothing was trained.
    """
    return (
        page_environment("evals.studies")
        .get_template("study.html")
        .render(
            tables=[
                {
                    "it": table,
                    "blocks": [
                        {
                            "it": block,
                            "plot": drawn(_plot(table, block, number)),
                            "compared": labels_compared(block),
                            "differences": partial(comparison_texts, block, unit=table.unit),
                        }
                        for number, block in enumerate(table.blocks)
                    ],
                }
                for table in tables
            ],
            notes=notes,
            curves=None if curves is None else drawn(curves),
            parts=cell_parts,
            row_title=row_title,
            cutoffs=cutoff_texts,
        )
    )


def _plot(table: StudyTable, block: Block, number: int) -> str:
    rows = [(row.label, interval_of(block, row, block.headline)) for row in block.rows]
    scale = 0.01 if table.unit == "share" else 1.0
    return interval_plot(rows, block.headline, f"{table.table}-{number}", scale=scale)
