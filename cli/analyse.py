"""`evigraph analyse`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CasesOption, JsonOption, KeyOption, RunFolderArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evals.analysis.report import Analysis
    from evals.scoring.gold import GoldCase
    from runs.folder import RunFolder as Run


def analyse(
    run: RunFolderArgument,
    key: KeyOption = None,
    cases: CasesOption = None,
    tune_on: Annotated[
        Path | None,
        typer.Option(
            "--tune-on",
            help="Choose the threshold on this run's cases, and report it on RUN's. (default: choose that of"
            " each case on all other cases)",
            metavar="RUN2",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with plots to this file.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a finished run about its votes: thresholds, agreement, reflection, intents. Calls no model.

    A run whose answers were attributed afterwards is asked about its citations: thresholds and weights.

    Without a key, that of the run is read; without any, agreement and reflection remain. A run of
    timeaware is asked for the tables of its paper: verdicts by documents, sentences, years and citations that
    count.

    Example: evigraph analyse out/2026-11-21T10-15-tamu-ab12 --html votes.html
    """
    from cli.print_analysis import print_analysis
    from cli.terminal import output, print_json, safe
    from evals.analysis.attribution import was_attributed
    from evals.analysis.report import TuningRun
    from evals.analysis.report import analyse as analyse_run
    from evals.scoring.run_gold import gold_of_run
    from evals.verdicts.recorded import gives_verdicts
    from runs.folder import RunFolder

    folder = RunFolder(run)
    if was_attributed(folder):
        if tune_on is not None:
            raise typer.BadParameter("--tune-on chooses a vote threshold, and nobody voted in this run")
        _analyse_attribution(folder, gold_of_run(folder, key or (), cases or ()), html, as_json=as_json)
        return
    if gives_verdicts(folder):
        if tune_on is not None:
            raise typer.BadParameter("--tune-on is for runs with votes on evidence; this one gives verdicts")
        _tabulate(folder, cases or (), html, as_json)
        return
    tuning = None
    if tune_on is not None:
        other = RunFolder(tune_on)
        tuning = TuningRun(other, gold_of_run(other))
    found: Analysis = analyse_run(folder, gold_of_run(folder, key or (), cases or ()), tuning)
    if html is not None:
        from evals.analysis.page import write_page

        write_page(html, found)
    if as_json:
        print_json(found.as_json())
        return
    print_analysis(found)
    if html is not None:
        output().print(safe(f"page  {html}"))


def _analyse_attribution(run: Run, gold: Mapping[str, GoldCase], html: Path | None, *, as_json: bool) -> None:
    from cli.print_attribution import print_attribution
    from cli.terminal import output, print_json, safe
    from evals.analysis.attribution import attribution_sweep

    found = attribution_sweep(run, gold)
    if html is not None:
        from evals.analysis.attribution_page import write_attribution_page

        write_attribution_page(html, found)
    if as_json:
        print_json(found.as_json())
        return
    print_attribution(found)
    if html is not None:
        output().print(safe(f"page  {html}"))


def _tabulate(folder: Run, cases: Sequence[Path], html: Path | None, as_json: bool) -> None:
    from cli.print_verdicts import print_verdict_tables
    from cli.terminal import output, print_json, safe
    from evals.verdicts.page import write_page
    from evals.verdicts.tables import make_tables

    found = make_tables(folder, cases)
    if html is not None:
        write_page(html, found)
    if as_json:
        print_json(found.as_json())
        return
    print_verdict_tables(found)
    if html is not None:
        output().print(safe(f"page  {html}"))
