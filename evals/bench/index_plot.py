"""The cost of stores of vectors as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evals.pages.svg import DOWN, INK, MUTED, UP, as_svg, new_grid, plot_style, standalone

_PANELS = {
    "processor_seconds": ("processor time to store", "s", 1.0),
    "disk_bytes": ("size on disk", "MB", 1e-6),
    "query_processor_p95_ms": ("processor time of a query, p95", "ms", 1.0),
    "recall@100": ("recall@100 against exact", "", 1.0),
}
_COLOURS = {"numpy": INK, "numpy int8": UP, "chroma": DOWN, "qdrant": MUTED}
_MARKERS = {"numpy": "o", "numpy int8": "s", "chroma": "^", "qdrant": "D"}


def draw(rows: Sequence[Mapping[str, Any]]) -> str:
    """One panel a quantity, a line a store; shares have an axis of their own kind."""
    with plot_style():
        figure, panels = new_grid(9.0, 3.0, len(_PANELS), 2)
        for axes, (name, (title, unit, factor)) in zip(panels, _PANELS.items(), strict=True):
            for store in dict.fromkeys(row["store"] for row in rows):
                of_store = [row for row in rows if row["store"] == store]
                sizes = [row["vectors"] for row in of_store]
                values = [row[name] * factor for row in of_store]
                axes.plot(sizes, values, marker=_MARKERS[store], color=_COLOURS[store], label=store)
            axes.set_xscale("log")
            if not name.startswith("recall") and all(row[name] > 0 for row in rows):
                axes.set_yscale("log")
            axes.set_title(title, loc="left", fontsize=10)
            axes.set_ylabel(unit)
            axes.margins(x=0.12, y=0.2)
        panels[0].legend(frameon=False, fontsize=8, loc="upper left")
        for axes in panels[-2:]:
            axes.set_xlabel("vectors")
        return standalone(as_svg(figure, "index"))
