"""`evigraph experiment`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import (
    AlignScoreBackboneOption,
    AlignScoreOption,
    BertScoreOption,
    ConceptsOption,
    ConcurrencyOption,
    JsonOption,
    MaxConnectionsOption,
    MaxCostOption,
    MaxOutageOption,
    MaxTokensTotalOption,
    ModelOption,
    PricesOption,
    ProbeOption,
    QuickUmlsOption,
    RetriesOption,
    RpmOption,
    StartConnectionsOption,
    TimeoutOption,
    TpmOption,
)

if TYPE_CHECKING:
    import asyncio

    from cli.progress import BatchProgress
    from evals.experiments.run import Cells


def experiment(
    definition: Annotated[
        str,
        typer.Argument(
            help="Experiment file (.yaml), or a packaged one: ablations, bioasq, demo.",
            metavar="EXPERIMENT",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder. (default: out/NAME)", show_default=False),
    ] = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            "--cases", help="Case files instead of the experiment's. Repeatable.", show_default=False
        ),
    ] = None,
    key: Annotated[
        list[Path] | None,
        typer.Option(
            "--key", help="Key file. Repeatable. (default: NAME_key.json beside NAME.xml)", show_default=False
        ),
    ] = None,
    model: ModelOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the first N cases.", show_default=False)
    ] = None,
    concurrency: ConcurrencyOption = None,
    max_connections: MaxConnectionsOption = None,
    start_connections: StartConnectionsOption = None,
    rpm: RpmOption = None,
    tpm: TpmOption = None,
    max_retries: RetriesOption = 4,
    timeout: TimeoutOption = 600.0,
    max_outage: MaxOutageOption = 120.0,
    probe: ProbeOption = True,
    max_tokens_total: MaxTokensTotalOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    bertscore_model: BertScoreOption = None,
    alignscore: AlignScoreOption = None,
    alignscore_backbone: AlignScoreBackboneOption = None,
    quickumls: QuickUmlsOption = None,
    concepts: ConceptsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a grid of recipes over one data set and write the tables of a paper, with intervals.

    Every cell is a run folder. All share one journal, so a prompt that two cells have in common is asked
    once. The same command goes on with an experiment that was interrupted. A budget is that of all cells
    together. Exit codes are those of `run`.

    Example: evigraph experiment ablations --cases dev.xml --model vllm:meta-llama/Llama-3.3-70B-Instruct
    """
    import asyncio

    from cli.batch_options import batch_options
    from cli.print_experiment import as_object, print_experiment
    from cli.session import until_signal
    from cli.terminal import print_json
    from evals.experiments.definition import load_experiment
    from evals.experiments.report import report
    from evals.experiments.run import plan, run_cells
    from evals.metrics.resources import MetricResources
    from serving.limits import Limits

    loaded = load_experiment(definition)
    if cases:
        loaded = loaded.model_copy(update={"cases": tuple(cases), "key": tuple(key or ())})
    folder = out or Path("out") / Path(definition).stem
    planned = plan(loaded, folder, model or (), limit)
    options = batch_options(
        "run",
        concurrency=concurrency,
        limits=Limits(max_connections, start_connections, rpm, tpm, max_retries, timeout, max_outage),
        probe=probe,
        max_tokens_total=max_tokens_total,
        max_cost=max_cost,
        prices=prices,
    )

    async def work(stop: asyncio.Event, progress: BatchProgress) -> Cells:
        return await run_cells(planned, folder, options, stop=stop, watcher=progress)

    cells, interrupted = asyncio.run(until_signal(work))
    resources = MetricResources(bertscore_model, alignscore, alignscore_backbone, quickumls, concepts)
    made = report(loaded, cells, folder, resources)
    if as_json:
        print_json(as_object(planned, cells, made))
    else:
        print_experiment(folder, planned, cells, made)
    finished = len(cells.reported) + len(cells.tuning) == len(planned)
    if interrupted and not finished:
        raise typer.Exit(130)
    if not finished or any(run.manifest.counts.failed for run in cells.reported.values()):
        raise typer.Exit(1)
