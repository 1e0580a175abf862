"""`evigraph resume` and `evigraph retry`: further sessions of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.flags import ClusterFlags, ScratchFlags
from cli.options import ModelOption, RunFolderArgument
from cli.running.print_answer import asked_result
from cli.terminal import Result


def resume(
    run: RunFolderArgument,
    recipe: Annotated[
        str | None, typer.Option("--recipe", "-r", help="Check that this is the recipe of the run.")
    ] = None,
    model: ModelOption = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="Only the cases that waited for a person and have a review.")
    ] = False,
    *,
    flags: ClusterFlags,
    publishing: ScratchFlags,
) -> Result:
    """Continue a run that was killed or interrupted.

    Cases that have ended stay as they are; those that wait for a person continue if they have a review.
    Calls that were answered are replayed from the journal. A run is not resumed if recipe, prompts, cases,
    demonstrations or models have changed; a server's address may. A run that was killed with `--scratch` goes
    on with `evigraph resume RUN --scratch DIR` on the same machine.
    A run of `evigraph ask` ends with its answer.

    Example: evigraph resume out/2026-11-21T10-15-tamu-ab12
    """
    from cli.session import chosen_models, run_session
    from runs.execute.sessions import resume as resume_run

    models = chosen_models(run, model)
    options = publishing.with_options(flags.options("resume"))
    ended = run_session(
        lambda stop, watcher: resume_run(
            run,
            options,
            recipe=recipe,
            models=models,
            stop=stop,
            watcher=watcher,
            only_reviewed=reviewed,
        ),
        command="resume",
        detached=flags.detach,
    )
    return asked_result(run) or ended


def retry(
    run: RunFolderArgument,
    model: ModelOption = None,
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected", help="Take case and key files as they are now, and run the cases that changed too."
        ),
    ] = False,
    impaired: Annotated[
        bool,
        typer.Option(
            "--impaired",
            help="Run the cases too that ended although a request of theirs had failed, such as a vote.",
        ),
    ] = False,
    retry_online: Annotated[
        bool,
        typer.Option(
            "--retry-online",
            help="Ask models that answer in batches one request at a time, in this session.",
        ),
    ] = False,
    *,
    flags: ClusterFlags,
    publishing: ScratchFlags,
) -> Result:
    """Rerun the failed cases of a run, and any that never ran.

    Calls that were answered are replayed from the journal; replies that could not be used are asked for
    anew. The models stay the same, but a server's address may change. A case that could not be read fails
    again until its file is corrected. With `--impaired`, what failed within cases that are done is asked for
    again as well; what follows from it may be asked anew, and a case that fails altogether stays as it was.

    Example: evigraph retry out/2026-11-21T10-15-tamu-ab12
    """
    from cli.session import chosen_models, run_session
    from runs.execute.sessions import retry as retry_run

    models = chosen_models(run, model)
    options = publishing.with_options(flags.options("retry", online=retry_online))
    ended = run_session(
        lambda stop, watcher: retry_run(
            run,
            options,
            models=models,
            stop=stop,
            watcher=watcher,
            corrected=corrected,
            impaired=impaired,
        ),
        command="retry",
        detached=flags.detach,
    )
    return asked_result(run) or ended
