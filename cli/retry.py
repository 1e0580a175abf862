"""`evigraph retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def retry(
    run: RunFolderArgument,
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
    """Run the failed cases of a run again, and only those (and any that never ran).

    Calls that were answered are replayed from the journal; replies that could not be used are asked for
    anew. The models stay the same, but a server's address may change.

    Example: evigraph retry out/2026-11-21T10-15-tamu-ab12
    """
    from cli.batch_options import batch_options
    from cli.session import run_session
    from runs.folder import RunFolder as Folder
    from runs.sessions import recorded_models
    from runs.sessions import retry as retry_run
    from serving.limits import Limits
    from serving.model_name import assign_roles

    models = assign_roles(model, recorded_models(Folder(run).manifest)) if model else None
    options = batch_options(
        "retry",
        concurrency=concurrency,
        limits=Limits(max_connections, start_connections, rpm, tpm, max_retries, timeout, max_outage),
        probe=probe,
        max_tokens_total=max_tokens_total,
        max_cost=max_cost,
        prices=prices,
    )

    async def work(stop: asyncio.Event, progress: BatchProgress) -> RunFolder:
        return await retry_run(run, options, models=models, stop=stop, watcher=progress)

    run_session(work, as_json=as_json)
