"""`evigraph train`."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cases.texts import quoted
from cli.options import local_path
from cli.terminal import Result, plural, print_line, print_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event
    from types import FrameType

    from cli.progress import Progress
    from ranking.rankers.checkpoint import RankerManifest
    from ranking.training.job import TrainingJob
    from ranking.training.loop import TrainingProgress

_RECIPES = (
    "logistic, pointwise, pairwise, listwise, pointwise-pairwise, pointwise-listwise,"
    " early, mid, late, reranker"
)


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help=f"Training recipe (.yaml), or a packaged one: {_RECIPES}.", metavar="RECIPE"),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            "-d",
            help="Labelled examples: a file, or the folder of a data set. Repeatable.",
            metavar="PATH",
            parser=local_path,
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Format of the data: scifact, evidence_inference, archehr or jsonl. (default: detected for"
            " each)",
            metavar="NAME",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the ranker. (default: a new one in out/)")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="minilm, or the folder of a transformers model. (default: the recipe's)", metavar="ENCODER"
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Most epochs. (default: the recipe's)")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of weights, order and noise. (default: the recipe's)")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Share of the examples held out for early stopping, tuning and the report. (default: the"
            " recipe's)"
        ),
    ] = None,
    pretrain: Annotated[
        list[Path] | None,
        typer.Option(
            help="Labelled examples to pre-train on, by classifying their sentences. Repeatable.",
            metavar="PATH",
            parser=local_path,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the first N examples.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Folder of an interrupted training; needs no other option.", metavar="FOLDER"),
    ] = None,
) -> Result:
    """Train a ranker of evidence on labelled sentences.

    Part of the examples is held out for early stopping, for tuning the cut-off and for the reported figures.
    The result is a folder that can be moved. An interrupted training keeps its progress.
    Exit code 0: trained; 2: wrong usage or input, or the loss was not finite; 130: interrupted.

    Example: evigraph train pointwise --data scifact/ --out rankers/scifact
    """
    if recipe == "logistic":
        given = {"encoder": encoder, "epochs": epochs, "seed": seed, "held_out": held_out}
        _refuse_options(**given, pretrain=pretrain, resume=resume)
        return _train_logistic(_wanted(data), reader, out or _new_folder(recipe), limit)

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
    from cli.progress import progress
    from ranking.training.loop import TrainingInterrupted
    from ranking.training.train import train as run_training

    with progress() as shown, _stop_on_signal(shown) as stopping:
        try:
            manifest = run_training(
                *(job, examples, folder),
                resume=resume is not None,
                watcher=_TrainingWatcher(shown),
                stopping=stopping.is_set,
            )
        except TrainingInterrupted as interrupted:
            print_message(f"evigraph: {interrupted}")
            raise typer.Exit(130) from None
    _draw_curve(folder)
    return _trained(folder, manifest)


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

    from evals.rankings.scores import curve_svg
    from ranking.rankers.checkpoint import CURVE
    from storage.files import write_atomically

    points = [json.loads(line) for line in (folder / CURVE).read_text("utf-8").splitlines()]
    write_atomically(folder / "curve.svg", [curve_svg(points).encode()])


def _refuse_options(**given: object) -> None:
    """Refuse what only a neural ranker has."""
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter(
                "the logistic ranker has no such setting; leave it out, or name another recipe",
                param_hint="--" + name.replace("_", "-"),
            )


def _train_logistic(data: list[Path], reader: str | None, folder: Path, limit: int | None) -> Result:
    """The cheapest ranker: fitted in one go on all labelled examples."""
    from ranking.errors import RankerError
    from ranking.rankers.logistic import fit_logistic
    from ranking.rankers.ranker import CHECKPOINT
    from ranking.readers.load import load_examples
    from ranking.training.job import reader_name

    if (folder / CHECKPOINT).exists():
        raise RankerError(f"{folder}: holds a ranker already; give another --out")
    examples = load_examples(data, reader_name(reader))[:limit]
    print_message(f"{plural(len(examples), 'example')}: their sentences are embedded once")
    ranker = fit_logistic(examples, data=", ".join(path.name for path in data))
    ranker.save(folder)
    f1, count = ranker.weights.out_of_fold_f1, ranker.weights.learned_from.examples
    content = {
        "folder": str(folder),
        "name": ranker.identity,
        "out_of_fold_micro_f1": f1,
        "cutoff": ranker.cutoff.model_dump(mode="json"),
        "train_examples": count,
    }
    line = (
        f"{ranker.identity}: fitted on {plural(count, 'example')}; micro F1 {f1} on examples left out"
        f" in turn. It is in {folder}; next: evigraph rank {quoted(folder)}"
    )
    return Result(content, lambda: print_line(line))


class _TrainingWatcher:
    """Shows the phases of a training."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._phase = ""

    def notify(self, text: str) -> None:
        """Print a line that stays."""
        self._shown.notify(text)

    def update(self, progress: TrainingProgress) -> None:
        """Show epoch, loss and speed."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._shown.start(f"steps of {self._phase}", progress.steps)
        details = (
            f"epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.3f},"
            f" {progress.pairs_per_second:,.0f} pairs/s"
        )
        self._shown.advance(progress.step, progress.steps, details)


@contextmanager
def _stop_on_signal(shown: Progress) -> Iterator[Event]:
    """Within it, a first SIGINT or SIGTERM sets the event, and a second does not wait for anything."""
    import signal
    from threading import Event

    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        shown.notify("stopping after this step; finished work is kept; Ctrl-C again ends at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _trained(folder: Path, manifest: RankerManifest) -> Result:
    held_out = manifest.held_out
    content = {
        "folder": str(folder),
        "name": manifest.name,
        "epoch": held_out.epoch,
        "average_precision": held_out.average_precision,
        "micro_f1": held_out.micro_f1,
        "cutoff": manifest.cutoff.model_dump(mode="json"),
        "held_out_examples": manifest.split.examples,
        "train_examples": manifest.data.examples,
    }
    line = (
        f"{manifest.name}: trained on {plural(manifest.data.examples, 'example')}, best epoch"
        f" {held_out.epoch}; on {plural(manifest.split.examples, 'held-out example')} average precision"
        f" {held_out.average_precision:.3f}, micro F1 {held_out.micro_f1:.3f} ({manifest.cutoff.rule},"
        f" leave-one-out). It is in {folder}; next: evigraph rank {quoted(folder)}"
    )
    return Result(content, lambda: print_line(line))
