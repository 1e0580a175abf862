"""`evigraph rerun`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.flags import RequestFlags
from cli.options import (
    EffortOption,
    ModelOption,
    PromptOption,
    PromptSetOption,
    RunFolderArgument,
    ThresholdOption,
    VotesOption,
)
from cli.set_values import SetOption, effort_values, prompt_files, recipe_values
from cli.terminal import Result


def rerun(
    run: RunFolderArgument,
    case: Annotated[str, typer.Argument(help="A case id.", metavar="CASE")],
    node: Annotated[
        str | None,
        typer.Option("--from", help="The node that runs again, with all nodes after it.", metavar="NODE"),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Only this step, as `show` numbers them, with all steps after it. (default: all"
            " executions of NODE that began first, such as the reflections of all votes)",
            metavar="K",
        ),
    ] = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    prompt: PromptOption = None,
    prompt_set: PromptSetOption = None,
    votes: VotesOption = None,
    threshold: ThresholdOption = None,
    values: SetOption = None,
    *,
    flags: RequestFlags,
) -> Result:
    """Run one case again from one of its nodes, with another model, prompt or recipe value.

    The result is a fork: a new run folder in RUN/forks/. Steps before the node, and in parallel to it, are
    inherited; the node and all nodes after it run again. RUN itself does not change, and may still be in
    progress.

    Without any change, the fork uses another seed than the run, because the same seed would get the same
    replies. At temperature 0 it may get them anyway: --set answer.temperature=0.7. With a change, the seed
    stays, so that the change alone makes the difference.

    Example: evigraph rerun out/first 101 --from generate_answer --model embedded:smollm2-135m
    """
    from cli.looking.show_fork import summarise_fork
    from cli.session import chosen_models, until_signal
    from prompts.versions import located
    from runs.fork.rerun import Rerun
    from runs.fork.rerun import rerun as rerun_case
    from runs.record.folder import RunFolder

    original = RunFolder(run)
    version = None if prompt_set is None else located(prompt_set)
    given = {"prompts": version, "evidence.votes": votes, "evidence.threshold": threshold}
    wanted = Rerun(
        case_id=case,
        node=node,
        step=step,
        models=chosen_models(run, model),
        overrides={field: value for field, value in given.items() if value is not None}
        | recipe_values(values or ())
        | effort_values(effort or (), original.manifest.recipe.get("effort", {})),
        prompt_files=prompt_files(prompt or ()),
    )
    fork, interrupted = until_signal(
        lambda stop, watcher: rerun_case(
            original, wanted, flags.limits, probe=flags.probe, stop=stop, watcher=watcher
        )
    )
    if interrupted and fork.manifest.status == "interrupted":
        raise typer.Exit(130)
    summary = summarise_fork(original, fork)
    return Result(summary.as_json(), summary.print, int(fork.manifest.counts.failed > 0))
