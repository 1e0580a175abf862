"""A sweep of attribution thresholds for people."""

from __future__ import annotations

from rich.table import Table

from cli.terminal import output, safe
from evals.analysis.attribution import AttributionSweep

_FEW = 50
"""Below so many labelled cases a threshold's lead over the next is mostly chance."""


def print_attribution(found: AttributionSweep) -> None:
    """Print a row for each threshold and each set of weights."""
    console = output()
    console.print(
        safe(f"{found.run}: {found.cases:,} cases attributed, {found.labelled_cases:,} of them in a key")
    )
    if not found.rows:
        console.print("without labels in a key nothing can be scored; give one: --key KEY")
        return
    table = Table(title="attribution threshold", title_justify="left", box=None, pad_edge=False)
    for name in (
        "weights",
        "t",
        "citations",
        "uncited",
        "P",
        "R",
        "F1",
        "macro F1",
        "lenient F1",
        "cited F1",
    ):
        table.add_column(name, justify="left" if name == "weights" else "right", no_wrap=True)
    for row in found.rows:
        own = row.weights == found.weights
        mark = " *" if own and row.threshold == found.threshold else ""
        clinician = "-" if row.clinician_micro is None else f"{100 * row.clinician_micro.f1:.1f}"
        table.add_row(
            safe(str(row.weights)),
            f"{row.threshold:g}{mark}",
            f"{row.citations:,}",
            f"{row.uncited:,}",
            *(f"{100 * value:.1f}" for value in row.strict_micro),
            f"{100 * row.strict_macro.f1:.1f}",
            f"{100 * row.lenient_micro.f1:.1f}",
            clinician,
        )
    console.print()
    console.print(table)
    console.print(
        "  weights: lexical/fuzzy/semantic; P, R, F1: cited against essential sentences, strict micro;"
        " lenient F1: as in 2025; cited F1: against what the clinician's answer cites; uncited: cases without"
        " a citation; * the recipe's"
    )
    if found.labelled_cases < _FEW:
        console.print(
            f"  {found.labelled_cases} cases are few: the best threshold of the table is partly luck"
        )
