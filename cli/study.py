"""`evigraph study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import JsonOption


def study(
    definition: Annotated[
        str,
        typer.Argument(
            help="Study file (.yaml), or a packaged one: fusion, objectives, smoke.",
            metavar="STUDY",
            show_default=False,
        ),
    ],
    data: Annotated[
        list[Path],
        typer.Option(
            "--data",
            help="Labelled examples: a file or a data set's folder. Repeatable.",
            show_default=False,
        ),
    ],
    pretrain: Annotated[
        list[Path] | None,
        typer.Option(
            "--pretrain", help="Examples for rows that are pre-trained. Repeatable.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder. (default: out/study-NAME)", show_default=False),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Instead of the study's, such as 1,2,3.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="At most N training examples a row.", show_default=False),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder", help="Backbone of every row: minilm, or a transformers folder.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            help="Trainings side by side, which share the processors. (default: one a processor)",
            show_default=False,
        ),
    ] = None,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Train nothing; make the tables of what is finished.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train rankers in a grid of recipes and seeds and write the tables of TAMU 2026 and Abridge 2025.

    Every training is a folder, and its scores are kept. The same command goes on with a study that was
    interrupted: what is finished is skipped, and tables are made of what there is. Exit codes: 0 all done,
    1 some trainings failed, 2 wrong input, 130 interrupted.

    Example: evigraph study objectives --data scifact --out out/objectives
    """
    from cli.print_study import as_object, print_study
    from cli.study_progress import StudyProgress
    from cli.terminal import print_json
    from evals.studies.data import read_study_data
    from evals.studies.definition import adjusted, load_study
    from evals.studies.jobs import plan
    from evals.studies.report import report
    from evals.studies.run import run_jobs

    loaded = adjusted(load_study(definition), seeds=seeds, limit=limit, encoder=encoder)
    folder = out or Path("out") / f"study-{Path(definition).stem}"
    planned = plan(loaded, read_study_data(loaded, data, pretrain or ()), folder)
    with StudyProgress(planned.jobs) as progress:
        outcome = run_jobs(() if tables_only else planned.jobs, workers, progress)
    made = report(planned)
    if as_json:
        print_json(as_object(planned, outcome, made))
    else:
        print_study(planned, outcome, made)
    if outcome.interrupted:
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)
