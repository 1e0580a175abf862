"""`evigraph study`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import JsonOption, local_path
from cli.terminal import duration, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.progress import Progress
    from evals.studies.jobs import Job
    from evals.studies.worker import Report

if TYPE_CHECKING:
    from evals.studies.jobs import Plan
    from evals.studies.report import StudyReport
    from evals.studies.run import Outcome


def study(
    definition: Annotated[
        str,
        typer.Argument(
            help="Study file (.yaml), or a packaged one: fusion, objectives, smoke.", metavar="STUDY"
        ),
    ],
    data: Annotated[
        list[Path],
        typer.Option(
            help="Labelled examples: a file or a data set's folder. Repeatable.",
            metavar="PATH",
            parser=local_path,
        ),
    ],
    pretrain: Annotated[
        list[Path] | None,
        typer.Option(
            help="Examples for rows that are pre-trained. Repeatable.", metavar="PATH", parser=local_path
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder. (default: out/study-NAME)")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the study's, such as 1,2,3.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most N training examples per row.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Backbone of every row: minilm, or a transformers folder.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Concurrent trainings, which share the processors. (default: one per processor)"
        ),
    ] = None,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Train nothing; make the tables from what is finished.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train rankers in a grid of recipes and seeds and write the tables of TAMU 2026 and Abridge 2025.

    Every training is a folder with its scores. The same command continues a study that was interrupted: what
    is finished is skipped, and tables are made from what there is. Exit codes: 0 all done,
    1 some trainings failed, 2 wrong input, 130 interrupted.

    Example: evigraph study objectives --data scifact --out out/objectives
    """
    from cli.progress import progress
    from evals.studies.data import read_study_data
    from evals.studies.definition import adjusted, load_study
    from evals.studies.jobs import plan
    from evals.studies.report import report
    from evals.studies.run import run_jobs

    loaded = adjusted(load_study(definition), seeds=seeds, limit=limit, encoder=encoder)
    folder = out or Path("out") / f"study-{Path(definition).stem}"
    planned = plan(loaded, read_study_data(loaded, data, pretrain or ()), folder)
    with progress() as shown:
        watcher = _StudyWatcher(shown, planned.jobs)
        outcome = run_jobs(() if tables_only else planned.jobs, workers, watcher)
    made = report(planned)
    if as_json:
        print_json(_as_object(planned, outcome, made))
    else:
        _print(planned, outcome, made)
    if outcome.interrupted:
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


def _print(plan: Plan, outcome: Outcome, made: StudyReport) -> None:
    """The headline of each table, how the trainings ended, and where the tables are."""
    from cli.terminal import print_table
    from evals.studies.render import table_of

    for table in made.tables:
        for block in table.blocks:
            print_line()
            title = f"{table.title}: {block.title}" if block.title else table.title
            print_line(title, soft_wrap=True)
            print_table(table_of(block, table.unit, headline_only=True))
    print_line()
    for note in made.notes:
        print_line(note)
    finished = sum(not job.missing for job in plan.jobs)
    print_line(
        f"{finished} of {len(plan.jobs)} trainings and baselines finished: {outcome.done} now,"
        f" {outcome.skipped} before, {len(outcome.failed)} failed"
    )
    for name, reason in outcome.failed.items():
        print_line(f"failed  {name}: {reason}", soft_wrap=True)
    for title, path in (("tables", made.markdown), ("", made.csv), ("", made.json), ("page", made.page)):
        print_line(f"{title:8}{path}", soft_wrap=True)
    if made.curves is not None:
        print_line(f"{'curves':8}{made.curves}", soft_wrap=True)


def _as_object(plan: Plan, outcome: Outcome, made: StudyReport) -> dict[str, Any]:
    """One object for programs; values of tables are in points of 100."""
    from evals.studies.render import as_object

    return {
        "finished": [job.name for job in plan.jobs if not job.missing],
        "unfinished": [job.name for job in plan.jobs if job.missing],
        "failed": outcome.failed,
        "done_now": outcome.done,
        "skipped": outcome.skipped,
        "tables": [as_object(table) for table in made.tables],
        "notes": list(made.notes),
        "markdown": str(made.markdown),
        "csv": str(made.csv),
        "json": str(made.json),
        "page": str(made.page),
        "curves": None if made.curves is None else str(made.curves),
    }


class _StudyWatcher:
    """A task for each training that runs, and a line when it ends."""

    def __init__(self, shown: Progress, jobs: Sequence[Job]) -> None:
        self._shown = shown
        self._left = sum(bool(job.missing) for job in jobs)
        self._all = len(jobs)
        self._running = 0
        self._durations: list[float] = []

    def notify(self, text: str) -> None:
        """Print a line that stays."""
        self._shown.notify(text)

    def began(self, job: Job) -> None:
        """Show a training."""
        self._running += 1
        self._shown.start(job.name, 100, percent=True)

    def progress(self, job: Job, report: Report, seconds: float) -> None:
        """Show how far a training is."""
        if report.kind == "notice":
            self.notify(f"{job.name}: {report.text}")
        else:
            self._shown.advance(100 * report.share, details=report.text, task=job.name)

    def ended(self, job: Job, report: Report, seconds: float) -> None:
        """Say how a training went, and how long the others will take."""
        self._shown.stop(job.name)
        self._left -= 1
        self._durations.append(seconds)
        line = f"{job.name}: {report.kind} in {duration(seconds)}" + (
            f": {report.text}" if report.text else ""
        )
        if self._left:
            # Jobs that run side by side end side by side.
            left = sum(self._durations) / len(self._durations) * self._left / self._running
            line += f"; {self._left} of {self._all} left, about {duration(left)}"
        self._running -= 1
        self.notify(line)
