"""`evigraph train logistic`: the cheapest ranker, fitted in one go."""

from __future__ import annotations

from pathlib import Path

import typer


def train_logistic(
    data: list[Path], reader: str | None, folder: Path, limit: int | None
) -> dict[str, object]:
    """Fit on all labelled examples, and write the folder.

    Returns:
        What is told of it; its F1 is of examples that were left out in turn.

    Raises:
        InputError: The data cannot be read.
        RankerError: There is too little to learn from, or the folder is taken.
    """
    from cli.terminal import messages
    from ranking.errors import RankerError
    from ranking.logistic import CHECKPOINT, fit_logistic
    from ranking.readers.load import load_examples
    from ranking.training.job import reader_name

    if (folder / CHECKPOINT).exists():
        raise RankerError(f"{folder}: holds a ranker already; give another --out")
    examples = load_examples(data, reader_name(reader))[:limit]
    messages().print(f"{len(examples)} examples: their sentences are embedded once", soft_wrap=True)
    ranker = fit_logistic(examples, data=", ".join(path.name for path in data))
    ranker.save(folder)
    return {
        "folder": str(folder),
        "name": ranker.identity,
        "out_of_fold_micro_f1": ranker.weights.out_of_fold_f1,
        "cutoff": ranker.cutoff.model_dump(mode="json"),
        "train_examples": ranker.weights.learned_from.examples,
    }


def refuse_options(**given: object) -> None:
    """Refuse what only a neural ranker has.

    Raises:
        typer.BadParameter: Names the first such option that was given.
    """
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter(
                "the logistic ranker has no such setting; leave it out, or name another recipe",
                param_hint="--" + name.replace("_", "-"),
            )
