"""`evigraph compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.completion import run_names
from cli.flags import MetricFlags
from cli.options import CasesOption, HtmlOption, KeyOption, WorstFirstOption, run_folder
from cli.terminal import Result, plural, print_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evals.metrics.text_metric import MetricResources
    from evals.scoring.gold import GoldCase
    from runs.record.folder import RunFolder


def compare(
    run_a: Annotated[
        Path,
        typer.Argument(
            help="The run that is compared against.",
            metavar="RUN_A",
            parser=run_folder,
            autocompletion=run_names,
        ),
    ],
    run_b: Annotated[
        Path,
        typer.Argument(help="The other run.", metavar="RUN_B", parser=run_folder, autocompletion=run_names),
    ],
    more: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Further runs: then a matrix of cases and runs is shown.",
            metavar="[RUN...]",
            parser=run_folder,
            autocompletion=run_names,
        ),
    ] = None,
    key: KeyOption = None,
    cases: CasesOption = None,
    candidates: Annotated[
        int,
        typer.Option(
            min=1,
            help="One run is the best of N configurations by its score on these cases: correct for that"
            " choice.",
            metavar="N",
        ),
    ] = 1,
    resamples: Annotated[int, typer.Option(min=99, help="Bootstrap resamples and random exchanges.")] = 9_999,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 42,
    rows: Annotated[int, typer.Option(min=1, help="Most rows of each list.")] = 10,
    worst_first: WorstFirstOption = False,
    html: HtmlOption = None,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="With --html: whether the page holds answers.")
    ] = True,
    *,
    metrics: MetricFlags,
) -> Result:
    """Compare runs on the same cases: scores with intervals, changed labels, answers and routes.

    Differences are B minus A, on the cases that are done in both. Without --key and --cases those of RUN_A
    are read. Without a key, only changes are shown. Three to eight runs are shown as a matrix of cases and
    runs, with score, cost and time.

    Example: evigraph compare out/before out/after --key key.json --html out/compare.html
    """
    from cli.measuring.print_comparison import print_comparison
    from evals.compare.comparison import compare_runs
    from evals.compare.differences import Settings
    from evals.compare.outcomes import read_outcomes
    from evals.run_scores import score_on
    from evals.scoring.gold import gold_if_readable
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder

    folders = (RunFolder(run_a), RunFolder(run_b))
    gold = gold_if_readable(folders[0], key or (), cases or (), print_message)
    if more:
        return _matrix(
            [*folders, *map(RunFolder, more)],
            gold,
            metrics.resources,
            rows=rows,
            worst_first=worst_first,
            html=html,
        )
    one, other = (score_on(run, gold, metrics.resources) for run in folders)
    labels = {case_id: case.labels for case_id, case in gold.items() if case.labels}
    first, second = (read_outcomes(run) for run in folders)
    judged_by = Settings(resamples=resamples, seed=seed, candidates=candidates)
    comparison = compare_runs(first, second, (one, other), labels, judged_by)
    if html is not None:
        from evals.compare.render import render
        from evals.pages.page import write_page

        write_page(html, render(comparison, rows=max(rows, 50), with_texts=texts))
        for path in (run_a, run_b) if texts else ():
            record_if_possible(path, "exported", what="answers that differ", to=str(html))
    content = comparison.as_json() | {"html": None if html is None else str(html)}
    return Result(content, lambda: print_comparison(comparison, rows=rows, page=html))


def _matrix(
    runs: Sequence[RunFolder],
    gold: Mapping[str, GoldCase],
    resources: MetricResources,
    *,
    rows: int,
    worst_first: bool,
    html: Path | None,
) -> Result:
    from cli.measuring.print_comparison import print_matrix
    from evals.compare.matrix import LETTERS, matrix_of, read_side
    from evals.compare.render import render_matrix
    from evals.pages.page import write_page
    from evals.run_scores import score_on

    if len(runs) > len(LETTERS):
        raise typer.BadParameter(f"at most {plural(len(LETTERS), 'run')} fit side by side, not {len(runs)}")
    matrix = matrix_of([read_side(run, score_on(run, gold, resources)) for run in runs])
    if html is not None:
        write_page(html, render_matrix(matrix))
    content = matrix.as_json() | {"html": None if html is None else str(html)}
    return Result(content, lambda: print_matrix(matrix, rows=rows, worst_first=worst_first, page=html))
