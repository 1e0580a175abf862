"""`evigraph experiment`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.flags import MetricFlags, SessionFlags
from cli.options import (
    EffortOption,
    LimitOption,
    ModelOption,
    NewKeyOption,
    input_path,
    local_path,
)
from cli.set_values import effort_values
from cli.terminal import Result, print_line, print_table

if TYPE_CHECKING:
    from asyncio import Event
    from collections.abc import Sequence

    from cli.session import BatchWatcher
    from evals.experiments.rankers import RankerPlan
    from evals.experiments.report import ExperimentReport
    from evals.experiments.run import Cells, PlannedCell


def experiment(
    definition: Annotated[
        str,
        typer.Argument(
            help="Experiment file (.yaml), or a packaged one: ablations, bioasq, demo, flagship,"
            " fusion, objectives, votes.",
            metavar="EXPERIMENT",
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder. (default: out/NAME)")] = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            help="Case files instead of the experiment's. Repeatable.", metavar="FILE|URL", parser=input_path
        ),
    ] = None,
    key: NewKeyOption = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    demos: Annotated[
        Path | None,
        typer.Option(
            help="Demonstrations instead of the experiment's: the folder of a pool, or a file of"
            " answered questions.",
            metavar="FOLDER|FILE",
            parser=local_path,
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Labelled examples for the rankers, instead of the experiment's. Repeatable.",
            metavar="PATH",
            parser=local_path,
        ),
    ] = None,
    pretrain: Annotated[
        list[Path] | None,
        typer.Option(
            help="Second data set for the rankers: to pre-train on, and other domains. Repeatable.",
            metavar="PATH",
            parser=local_path,
        ),
    ] = None,
    limit: LimitOption = None,
    *,
    flags: SessionFlags,
    metrics: MetricFlags,
) -> Result:
    """Run a grid of recipes or rankers over one data set and write the tables of a paper, with intervals.

    A cell is a run folder, or a ranker that is trained once per seed. All runs share one journal, so a
    prompt that two cells have in common is asked once. The same command continues an experiment that was
    interrupted. A budget covers all cells together. Exit codes are those of `run`.

    Example: evigraph experiment ablations --cases dev.xml --model vllm:meta-llama/Llama-3.3-70B-Instruct
    """
    from cli.session import until_signal
    from evals.experiments.definition import load_experiment
    from evals.experiments.rankers import plan_rankers, train_rankers
    from evals.experiments.report import report
    from evals.experiments.run import PLAN, keep_plan, plan, run_cells

    loaded = load_experiment(definition)
    if cases:
        loaded = loaded.model_copy(update={"cases": tuple(cases), "key": tuple(key or ())})
    if demos:
        loaded = loaded.model_copy(update={"demos": demos})
    given = {name: tuple(paths) for name, paths in (("data", data), ("pretrain", pretrain)) if paths}
    loaded = loaded.model_copy(update={"rankers": loaded.rankers.model_copy(update=given)})
    folder = out or Path("out") / Path(definition).stem
    planned = plan(loaded, folder, model or (), limit, effort_values(effort or (), {}))
    rankers = plan_rankers(loaded, folder, limit)
    keep_plan(folder / PLAN, planned, rankers)
    options = flags.options("run")

    async def work(stop: Event, watcher: BatchWatcher) -> tuple[Cells, dict[str, str]]:
        cells = await run_cells(planned, folder, options, stop=stop, watcher=watcher)
        failed = {} if rankers is None else await train_rankers(rankers, stop=stop, watcher=watcher)
        return cells, failed

    (cells, failed), interrupted = until_signal(work)
    made = report(loaded, cells, folder, metrics.resources, rankers)
    finished = len(cells.reported) + len(cells.tuning) == len(planned)
    finished = finished and (rankers is None or not rankers.unfinished)
    incomplete = not finished or any(run.manifest.counts.failed for run in cells.reported.values())
    code = 130 if interrupted and not finished else int(incomplete)
    content = _as_object(planned, cells, rankers, made) | ({"failed": failed} if failed else {})
    return Result(content, partial(_print, planned, cells, failed, made), code)


def _print(
    planned: Sequence[PlannedCell], cells: Cells, failed: dict[str, str], made: ExperimentReport
) -> None:
    """Usage of each cell, the headline of each table, and the paths of the tables."""
    from evals.experiments.render import table_of, title_of
    from evals.pages.tables import Table, columns

    if planned:
        heads = columns("cell", "cases", "calls made", "shared or replayed", "tokens")
        print_table(Table(heads, [_cell(cell, cells) for cell in planned]))
    for one in made.tables:
        print_line()
        print_table(table_of(one, headline_only=True), title=title_of(one))
    print_line()
    for note in made.notes:
        print_line(note, wrap=True)
    for name, reason in failed.items():
        print_line(f"failed  {name}: {reason}")
    print_line(f"tables  {made.markdown}")
    print_line(f"        {made.csv}")
    print_line(f"page    {made.page}")
    if len(cells.reported) > 1:
        first, second, *_ = cells.reported.values()
        print_line(f"next    evigraph compare {first.path} {second.path}")


def _cell(cell: PlannedCell, cells: Cells) -> list[str]:
    run = (cells.tuning if cell.tuning else cells.reported).get(cell.name)
    title = cell.name + (" (tuning)" if cell.tuning else "")
    if run is None:
        return [title, "not finished", "", "", ""]
    counts, sessions = run.manifest.counts, run.manifest.sessions
    return [
        title,
        f"{counts.done}{f', {counts.failed} failed' if counts.failed else ''}",
        f"{sum(session.calls for session in sessions):,}",
        f"{sum(session.replayed for session in sessions):,}",
        f"{run.manifest.total_tokens:,}",
    ]


def _as_object(
    planned: Sequence[PlannedCell], cells: Cells, rankers: RankerPlan | None, made: ExperimentReport
) -> dict[str, Any]:
    """One object for programs; values of tables are in points of 100."""
    from evals.experiments.render import as_object

    return {
        "cells": {
            name: {"run": str(run.path), **run.manifest.counts.model_dump()}
            for name, run in cells.reported.items()
        },
        "unfinished": [
            *(
                cell.name
                for cell in planned
                if cell.name not in (cells.tuning if cell.tuning else cells.reported)
            ),
            *([] if rankers is None else rankers.unfinished),
        ],
        "tables": [as_object(table) for table in made.tables],
        "notes": list(made.notes),
        "markdown": str(made.markdown),
        "csv": str(made.csv),
        "page": str(made.page),
    }
