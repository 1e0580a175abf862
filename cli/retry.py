"""`evigraph retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import ConcurrencyOption, JsonOption, ModelOption, RetriesOption, RunFolderArgument

if TYPE_CHECKING:
    import asyncio

    from cli.progress import BatchProgress
    from runs.folder import RunFolder


def retry(
    run: RunFolderArgument,
    model: ModelOption = None,
    concurrency: ConcurrencyOption = None,
    max_retries: RetriesOption = 4,
    as_json: JsonOption = False,
) -> None:
    """Run the failed cases of a run again, and only those (and any that never ran).

    Calls that were answered are replayed from the journal; replies that could not be used are asked for
    anew. The models stay the same, but a server's address may change.

    Example: evigraph retry out/2026-11-21T10-15-tamu-ab12
    """
    from cli.session import run_session
    from runs.batch import Options
    from runs.folder import RunFolder as Folder
    from runs.sessions import recorded_models
    from runs.sessions import retry as retry_run
    from serving.model_name import assign_roles

    models = assign_roles(model, recorded_models(Folder(run).manifest)) if model else None
    options = Options("retry", concurrency, max_retries)

    async def work(stop: asyncio.Event, progress: BatchProgress) -> RunFolder:
        return await retry_run(run, options, models=models, stop=stop, watcher=progress)

    run_session(work, as_json=as_json)
