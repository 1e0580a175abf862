"""`evigraph bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JsonOption

if TYPE_CHECKING:
    from evals.bench.result import Result


def bench(
    name: Annotated[
        str | None, typer.Argument(help="Which benchmark.", metavar="NAME", show_default=False)
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the benchmarks and end.")] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="The measured model, for those that need one.", metavar="STRING"),
    ] = None,
    cases: Annotated[int | None, typer.Option("--cases", min=1, help="Cases of a run.")] = None,
    repeats: Annotated[int | None, typer.Option("--repeats", min=1, help="Repeats of both sides.")] = None,
    max_connections: Annotated[
        int | None, typer.Option("--max-connections", min=1, help="Requests under way at once.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.001, help="Of latency: what the server takes a call.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Of corpus and index: documents to take. (default: invented ones)", metavar="PATH"
        ),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            "--curve", help="Of corpus and index: SVG file of cost by size. It takes minutes.", metavar="FILE"
        ),
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="The smallest run: it shows that all works and measures nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure this installation; each figure compares two sides within one run of the command.

    Close other programs, or read the spread. Each benchmark takes some of the options and refuses the
    others.

    Example: evigraph bench overhead --json
    """
    from cli.terminal import messages, print_json
    from evals.bench.catalogue import run

    if list_all:
        _print_list(as_json)
        return
    if name is None:
        raise typer.BadParameter("name a benchmark, or list them: evigraph bench --list")
    options = {
        "model": model,
        "cases": cases,
        "repeats": repeats,
        "max_connections": max_connections,
        "seconds": seconds,
        "data": data,
        "curve": curve,
    }
    given = {option: value for option, value in options.items() if value is not None}
    console = messages()
    result = run(name, given, tiny=tiny, report=lambda text: console.print(text, markup=False))
    if as_json:
        print_json(result.as_json())
    else:
        _print_result(result)


def _print_list(as_json: bool) -> None:
    from rich.table import Table

    from cli.terminal import output, print_json
    from evals.bench.catalogue import BENCHMARKS

    if as_json:
        print_json({"benchmarks": BENCHMARKS})
        return
    table = Table("benchmark", "what it measures", box=None, pad_edge=False, header_style="bold")
    for name, summary in BENCHMARKS.items():
        table.add_row(name, summary)
    output().print(table)


def _print_result(result: Result) -> None:
    from rich.table import Table

    from cli.terminal import output, safe

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
    for name, value in result.details.items():
        table.add_row(name.replace("_", " "), safe(str(value)))
    output().print(table)
