"""`evigraph resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import (
    ConcurrencyOption,
    JsonOption,
    MaxConnectionsOption,
    MaxCostOption,
    MaxOutageOption,
    MaxTokensTotalOption,
    ModelOption,
    PricesOption,
    ProbeOption,
    RetriesOption,
    RpmOption,
    RunFolderArgument,
    StartConnectionsOption,
    TimeoutOption,
    TpmOption,
)

if TYPE_CHECKING:
    import asyncio

    from cli.progress import BatchProgress
    from runs.folder import RunFolder


def resume(
    run: RunFolderArgument,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", "-r", help="Only to check that it is the recipe of the run.", show_default=False
        ),
    ] = None,
    model: ModelOption = None,
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
    as_json: JsonOption = False,
) -> None:
    """Go on with a run that was killed or interrupted.

    Cases that have ended stay as they are; those that wait for a person go on if they have a review. Calls
    that were answered are replayed from the journal. It is refused if recipe, prompts, cases, demonstrations
    or models have changed; a server's address may.

    Example: evigraph resume out/2026-11-21T10-15-tamu-ab12
    """
    from cli.batch_options import batch_options
    from cli.session import run_session
    from runs.folder import RunFolder as Folder
    from runs.sessions import recorded_models
    from runs.sessions import resume as resume_run
    from serving.limits import Limits
    from serving.model_name import assign_roles

    models = assign_roles(model, recorded_models(Folder(run).manifest)) if model else None
    options = batch_options(
        "resume",
        concurrency=concurrency,
        limits=Limits(max_connections, start_connections, rpm, tpm, max_retries, timeout, max_outage),
        probe=probe,
        max_tokens_total=max_tokens_total,
        max_cost=max_cost,
        prices=prices,
    )

    async def work(stop: asyncio.Event, progress: BatchProgress) -> RunFolder:
        return await resume_run(run, options, recipe=recipe, models=models, stop=stop, watcher=progress)

    run_session(work, as_json=as_json)
