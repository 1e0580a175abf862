"""`evigraph train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import JsonOption
from cli.train_logistic import refuse_options, train_logistic

if TYPE_CHECKING:
    from ranking.checkpoint import RankerManifest
    from ranking.training.job import TrainingJob

_RECIPES = (
    "logistic, pointwise, pairwise, listwise, pointwise-pairwise, pointwise-listwise, stacked,"
    " early, mid, late, window, reranker, reranker-stacked"
)


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help=f"Training recipe (.yaml), or a packaged one: {_RECIPES}.",
            metavar="RECIPE",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            "-d",
            help="Labelled examples: a file, or the folder of a data set. Repeatable.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--reader",
            help="What the data are: scifact, evidence_inference, archehr or jsonl. (default: as each looks)",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder of the ranker. (default: a new one in out/)", show_default=False
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            help="minilm, or the folder of a transformers model. (default: the recipe's)",
            metavar="ENCODER",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, help="At most. (default: the recipe's)", show_default=False),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="Of weights, order and noise. (default: the recipe's)", show_default=False
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            help="Share of the examples to stop by, tune on and report. (default: the recipe's)",
            show_default=False,
        ),
    ] = None,
    pretrain: Annotated[
        list[Path] | None,
        typer.Option(
            "--pretrain",
            help="Labelled examples to classify sentences of first. Repeatable.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="Only the first N examples.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Folder of an interrupted training; nothing else is needed.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a ranker of evidence on labelled sentences.

    A part of the examples is held out: training stops by it, the cut-off is tuned on it, and the figures are
    of it. The result is a folder that can be moved. What an interrupted training had learned is kept.
    Exit code 0: trained; 2: wrong usage or input, or the loss was not finite; 130: interrupted.

    Example: evigraph train pointwise --data scifact/ --out rankers/scifact
    """
    if recipe == "logistic":
        refuse_options(
            encoder=encoder, epochs=epochs, seed=seed, held_out=held_out, pretrain=pretrain, resume=resume
        )
        folder = out or _new_folder(recipe)
        _print_logistic(train_logistic(_wanted(data), reader, folder, limit), as_json=as_json)
        return

    from cli.terminal import messages, safe
    from ranking.training.job import load_data, read_job
    from ranking.training.recipe import override

    changes = _changes(encoder, epochs, seed, held_out, pretrain)
    if resume is not None:
        folder, job = resume, read_job(resume)
        if recipe is not None or changes:
            changed = _recipe(recipe, changes) if recipe else override(job.recipe, changes, job.name)
            job = job.model_copy(update={"recipe": changed})
        if data:
            job = job.model_copy(update={"data": tuple(str(path.resolve()) for path in data)})
    else:
        job = _new_job(recipe, data, reader, limit, changes)
        folder = out or _new_folder(job.name)
    examples = load_data(job)

    # After all that can be wrong with files: these bring torch, which takes seconds.
    from cli.training_progress import ProgressBar, stop_on_signal
    from ranking.training.loop import TrainingInterrupted
    from ranking.training.train import train as run_training

    with ProgressBar() as bar, stop_on_signal(bar) as stopping:
        try:
            manifest = run_training(
                job, examples, folder, resume=resume is not None, watcher=bar, stopping=stopping
            )
        except TrainingInterrupted as interrupted:
            messages().print(safe(f"evigraph: {interrupted}"), soft_wrap=True)
            raise typer.Exit(130) from None
    _draw_curve(folder)
    _print(folder, manifest, as_json=as_json)


def _changes(
    encoder: str | None,
    epochs: int | None,
    seed: int | None,
    held_out: float | None,
    pretrain: list[Path] | None,
) -> dict[str, Any]:
    given = {
        "model.encoder": encoder,
        "epochs": epochs,
        "seed": seed,
        "split.held_out": held_out,
        "pretrain.data": [str(path.resolve()) for path in pretrain] if pretrain else None,
    }
    return {field: value for field, value in given.items() if value is not None}


def _new_job(
    recipe: str | None,
    data: list[Path] | None,
    reader: str | None,
    limit: int | None,
    changes: dict[str, Any],
) -> TrainingJob:
    from ranking.training.job import TrainingJob

    if recipe is None:
        raise typer.BadParameter(f"name a recipe: {_RECIPES}, or a file", param_hint="RECIPE")
    return TrainingJob(
        name=Path(recipe).stem,
        recipe=_recipe(recipe, changes),
        data=tuple(str(path.resolve()) for path in _wanted(data)),
        reader=reader,
        limit=limit,
    )


def _wanted(data: list[Path] | None) -> list[Path]:
    if not data:
        raise typer.BadParameter("name what to learn from: --data PATH", param_hint="--data")
    return data


def _recipe(recipe: str, changes: dict[str, Any]) -> Any:
    from ranking.training.recipe import load_training_recipe, override

    return override(load_training_recipe(recipe), changes, recipe)


def _new_folder(name: str) -> Path:
    from datetime import datetime

    return Path("out") / f"{datetime.now().astimezone():%Y-%m-%dT%H-%M-%S}-{name}"


def _draw_curve(folder: Path) -> None:
    import json

    from cases.files import write_atomically
    from evals.rankings.curves import curve_svg
    from ranking.checkpoint import CURVE

    points = [json.loads(line) for line in (folder / CURVE).read_text("utf-8").splitlines()]
    write_atomically(folder / "curve.svg", [curve_svg(points).encode()])


def _print_logistic(told: dict[str, object], *, as_json: bool) -> None:
    from cli.terminal import output, print_json, safe

    if as_json:
        print_json(told)
        return
    output().print(
        safe(
            f"{told['name']}: fitted on {told['train_examples']} examples; micro F1"
            f" {told['out_of_fold_micro_f1']} on examples left out in turn. It is in {told['folder']}; next:"
            f" evigraph rank {told['folder']}"
        ),
        soft_wrap=True,
    )


def _print(folder: Path, manifest: RankerManifest, *, as_json: bool) -> None:
    from cli.terminal import output, print_json, safe

    held_out = manifest.held_out
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "name": manifest.name,
                "epoch": held_out.epoch,
                "average_precision": held_out.average_precision,
                "micro_f1": held_out.micro_f1,
                "cutoff": manifest.cutoff.model_dump(mode="json"),
                "held_out_examples": manifest.split.examples,
                "train_examples": manifest.data.examples,
            }
        )
        return
    output().print(
        safe(
            f"{manifest.name}: trained on {manifest.data.examples} examples, best epoch {held_out.epoch};"
            f" on {manifest.split.examples} held-out examples average precision"
            f" {held_out.average_precision:.3f}, micro F1 {held_out.micro_f1:.3f} ({manifest.cutoff.rule},"
            f" leave-one-out). It is in {folder}; next: evigraph rank {folder}"
        ),
        soft_wrap=True,
    )
