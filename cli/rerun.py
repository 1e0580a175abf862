"""`evigraph rerun`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import (
    JsonOption,
    ModelOption,
    ProbeOption,
    RetriesOption,
    RunFolderArgument,
    ThresholdOption,
    TimeoutOption,
    VotesOption,
)

if TYPE_CHECKING:
    from cli.progress import BatchProgress
    from runs.folder import RunFolder


def rerun(
    run: RunFolderArgument,
    case: Annotated[str, typer.Argument(help="A case id.", metavar="CASE", show_default=False)],
    node: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The node that runs again, with all that follow it.",
            metavar="NODE",
            show_default=False,
        ),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(
            "--step",
            min=0,
            help="This step alone, as `show` numbers them, with all that follow it. (default: all"
            " executions of NODE that began first, such as the reflections of all votes)",
            metavar="K",
            show_default=False,
        ),
    ] = None,
    model: ModelOption = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            help="Replace a prompt by a file. Repeatable.",
            metavar="NAME=FILE",
            show_default=False,
        ),
    ] = None,
    prompt_set: Annotated[
        str | None,
        typer.Option(
            "--prompt-set",
            help="Version of all prompts, such as paper, or a folder. (default: the run's)",
            metavar="NAME|DIR",
            show_default=False,
        ),
    ] = None,
    votes: VotesOption = None,
    threshold: ThresholdOption = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other value of the recipe, such as answer.temperature=0.7. Repeatable.",
            metavar="FIELD=VALUE",
            show_default=False,
        ),
    ] = None,
    max_retries: RetriesOption = 4,
    timeout: TimeoutOption = 600.0,
    probe: ProbeOption = True,
    as_json: JsonOption = False,
) -> None:
    """Run one case again from one of its nodes, with another model, prompt or recipe value.

    The result is a fork: a run folder of its own in RUN/forks/. What ran before the node, and beside it, is
    taken over as it was; the node and all that follow ask anew. RUN itself stays as it is, and may still be
    going on.

    Without any change, the fork asks with another seed than the run, because the same seed would get the
    same replies. At temperature 0 it may get them all the same: --set answer.temperature=0.7. With a change
    the seed stays, so that only the change counts.

    Example: evigraph rerun out/first 101 --from generate_answer --model embedded:smollm2-135m
    """
    import asyncio

    from cli.session import until_signal
    from cli.show_fork import summarise_fork
    from cli.terminal import print_json
    from runs.folder import RunFolder as Folder
    from runs.rerun import Rerun
    from runs.rerun import rerun as rerun_case
    from runs.sessions import recorded_models
    from serving.limits import Limits
    from serving.model_name import assign_roles

    original = Folder(run)
    given = {"prompts": prompt_set, "evidence.votes": votes, "evidence.threshold": threshold}
    wanted = Rerun(
        case_id=case,
        node=node,
        step=step,
        models=assign_roles(model, recorded_models(original.manifest)) if model else None,
        overrides={field: value for field, value in given.items() if value is not None}
        | _recipe_values(values or ()),
        prompt_files={name: Path(file) for name, file in _pairs("--prompt", prompt or (), "NAME=FILE")},
    )
    limits = Limits(max_retries=max_retries, timeout=timeout)

    async def work(stop: asyncio.Event, progress: BatchProgress) -> RunFolder:
        return await rerun_case(original, wanted, limits, probe=probe, stop=stop, watcher=progress)

    fork, interrupted = asyncio.run(until_signal(work))
    if interrupted and fork.manifest.status == "interrupted":
        raise typer.Exit(130)
    summary = summarise_fork(original, fork)
    if as_json:
        print_json(summary.as_json())
    else:
        summary.print()
    if fork.manifest.counts.failed:
        raise typer.Exit(1)


def _recipe_values(texts: list[str] | tuple[()]) -> dict[str, Any]:
    """Values as a recipe's YAML would have them."""
    import yaml

    from graph.recipe import RecipeError

    found = {}
    for field, text in _pairs("--set", texts, "FIELD=VALUE"):
        if field in ("system", "models") or field.startswith("models."):
            hint = "give --model" if field.startswith("models") else "a fork stays in its graph"
            raise typer.BadParameter(f"--set cannot change {field!r}: {hint}")
        try:
            found[field] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise RecipeError(f"--set {field}: {' '.join(str(error).split())}") from None
    return found


def _pairs(option: str, texts: list[str] | tuple[()], form: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for name, separator, value in pairs:
        if not (name and separator and value):
            raise typer.BadParameter(f"{option} takes {form}, not {name + separator + value!r}")
    return [(name, value) for name, _, value in pairs]
