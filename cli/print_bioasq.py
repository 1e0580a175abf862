"""BioASQ's scores for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from cli.terminal import output, safe
from evals.bioasq.parts import Part
from evals.bioasq.scores import PartScores

_TITLES: dict[Part, str] = {
    "documents": "phase A: documents",
    "snippets": "phase A: snippets",
    "yesno": "exact answers: yes or no",
    "factoid": "exact answers: factoid",
    "list": "exact answers: list",
    "ideal": "ideal answers",
}


def print_part_scores(origin: str, scored: Sequence[PartScores]) -> None:
    """Print each part with the interval of all questions, and the values of each type beside it."""
    console = output()
    console.print(safe(origin))
    for one in scored:
        noun = "question" if one.of_all.questions == 1 else "questions"
        console.print(f"\n[bold]{_TITLES[one.part]}[/bold]  {one.of_all.questions:,} {noun}")
        console.print(_table(one))
        if one.missing:
            more = ", ..." if one.missing[3:] else ""
            how = "skipped, as BioASQ does" if one.definitions.bioasq_compat else "count as 0"
            names = ", ".join(one.missing[:3])
            console.print(
                safe(f"  {len(one.missing):,} without an answer {how} ({names}{more})"), soft_wrap=True
            )
    console.print("\n0 to 1; brackets: 95 % intervals by bootstrap over questions")


def _table(one: PartScores) -> Table:
    types = [name for name in one.groups if name != "all"]
    table = Table(
        box=None, pad_edge=False, show_header=bool(types), header_style="bold", padding=(0, 2, 0, 2)
    )
    table.add_column("")
    table.add_column("all", justify="right")
    table.add_column("95 %")
    for name in types:
        table.add_column(f"{name} ({one.groups[name].questions})", justify="right")
    for score, interval in one.of_all.values.items():
        # Brackets would be markup.
        bracket = f"[{interval.low:.4f}, {interval.high:.4f}]" if one.of_all.questions > 1 else ""
        values = (f"{one.groups[name].values[score].value:.4f}" for name in types)
        table.add_row(score, f"{interval.value:.4f}", safe(bracket), *values)
    return table
