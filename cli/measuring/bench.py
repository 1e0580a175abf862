"""`evigraph bench`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli.terminal import Result as Printed
from cli.terminal import output, print_message, print_rows, safe

if TYPE_CHECKING:
    from evals.bench.benchmark import Result, Suite


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark.", metavar="NAME")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the benchmarks and exit.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="The model to measure, where a benchmark needs one.", metavar="STRING"
        ),
    ] = None,
    cases: Annotated[int | None, typer.Option(min=1, help="Number of cases in a run.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Number of repeats of both sides.")] = None,
    max_connections: Annotated[int | None, typer.Option(min=1, help="Concurrent requests.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="For latency: seconds that the server takes per call.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="For verification: folder of SciFact.", metavar="FOLDER")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="For verification: folder that keeps replies for the next run.", metavar="FOLDER"),
    ] = None,
    reply: Annotated[
        str | None,
        typer.Option(help="For verification: token (by log-probability) or json.", metavar="FORM"),
    ] = None,
    tiny: Annotated[
        bool,
        typer.Option("--tiny", help="The smallest run: it shows that everything works and measures nothing."),
    ] = False,
) -> Printed:
    """Measure this installation; each figure compares two sides within one run of the command.

    Close other programs, or read the spread. Each benchmark takes some of the options and refuses the
    others.

    Example: evigraph bench overhead --json
    """
    from evals.bench.benchmark import INSTALLATION, run

    if list_all:
        return listed(INSTALLATION)
    if name is None:
        raise typer.BadParameter("name a benchmark, or list them: evigraph bench --list")
    options = {
        "model": model,
        "cases": cases,
        "repeats": repeats,
        "max_connections": max_connections,
        "seconds": seconds,
        "data": data,
        "out": out,
        "reply": reply,
    }
    given = {option: value for option, value in options.items() if value is not None}
    return measured(run(name, given, tiny=tiny, report=print_message))


def listed(suite: Suite) -> Printed:
    """The benchmarks of a suite."""
    rows = suite.benchmarks.items()
    return Printed({"benchmarks": suite.benchmarks}, lambda: print_rows(("benchmark", "measurement"), rows))


def measured(result: Result) -> Printed:
    """Result of a benchmark."""
    return Printed(result.as_json, partial(_print, result))


def _print(result: Result) -> None:
    table = Table(title=result.benchmark, title_justify="left", box=None, pad_edge=False, show_header=False)
    for part in (result.numerator, result.denominator):
        table.add_row(safe(part.name), f"{part.value:,.4g} {part.unit}")
    lowest, highest = min(result.repeats), max(result.repeats)
    count = len(result.repeats)
    spread = f" ({lowest:.3f} to {highest:.3f} in {count} repeats)" if count > 1 else ""
    sign = "-" if result.figure == "growth_mb" else "/"
    table.add_row(
        f"{result.figure}, the first {sign} the second", f"{result.value:.3f}{spread}", style="bold"
    )
    for name, figure in result.figures.items():
        table.add_row(name.replace("_", " "), f"{figure:.3f}", style="bold")
    if result.rows:
        output().print(table)
        print_rows(tuple(result.rows[0]), result.rows[1:])
        return
    for name, value in result.details.items():
        table.add_row(name.replace("_", " "), safe(str(value)))
    output().print(table)
