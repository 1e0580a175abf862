"""`evigraph analyse`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CasesOption, HtmlOption, KeyOption, RunFolderArgument
from cli.terminal import Result, print_line

if TYPE_CHECKING:
    from evals.analysis.attribution import AttributionSweep
    from evals.analysis.report import Analysis


def analyse(
    run: RunFolderArgument,
    key: KeyOption = None,
    cases: CasesOption = None,
    tune_on: Annotated[
        Path | None,
        typer.Option(
            help="Choose the threshold on this run's cases, and report it on RUN's. (default: for each case,"
            " from all other cases)",
            metavar="RUN2",
        ),
    ] = None,
    html: HtmlOption = None,
) -> Result:
    """Analyse the votes of a finished run: thresholds, agreement, reflection, intents. Calls no model.

    For a run whose answers were attributed afterwards it analyses citations: thresholds and weights.

    The default key is the run's; without any, agreement and reflection remain.

    Example: evigraph analyse out/2026-11-21T10-15-tamu-ab12 --html votes.html
    """
    from cli.measuring.print_analysis import print_analysis, print_attribution
    from evals.analysis.attribution import was_attributed
    from evals.pages.page import write_page
    from evals.scoring.gold import gold_of_run
    from runs.record.folder import RunFolder

    folder = RunFolder(run)
    found: Analysis | AttributionSweep
    if was_attributed(folder):
        if tune_on is not None:
            raise typer.BadParameter("--tune-on chooses a vote threshold, and this run has no votes")
        from evals.analysis.attribution import attribution_sweep
        from evals.analysis.render import render_attribution

        found = attribution_sweep(folder, gold_of_run(folder, key or (), cases or ()))
        page, show = partial(render_attribution, found), partial(print_attribution, found)
    else:
        from evals.analysis.render import render_analysis
        from evals.analysis.report import analyse as analyse_votes

        gold = gold_of_run(folder, key or (), cases or ())
        found = analyse_votes(folder, gold, RunFolder(tune_on) if tune_on is not None else None)
        page, show = partial(render_analysis, found), partial(print_analysis, found)
    if html is not None:
        write_page(html, page())

    def print_found() -> None:
        show()
        if html is not None:
            print_line(f"page  {html}")

    return Result(found.as_json, print_found)
