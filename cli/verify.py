"""`evigraph verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JsonOption

if TYPE_CHECKING:
    from evals.verification.texts import Source


def verify(
    note: Annotated[
        Path,
        typer.Argument(
            help="A generated text, '-' for standard input, or a run folder.",
            metavar="NOTE|RUN",
            show_default=False,
        ),
    ],
    source: Annotated[
        Path | None,
        typer.Argument(
            help="What it was made from: a text, or a case file (.xml, .jsonl). Not given with a run.",
            metavar="SOURCE",
            show_default=False,
        ),
    ] = None,
    case: Annotated[
        str | None,
        typer.Option("--case", help="Case of the case file or the run.", metavar="ID", show_default=False),
    ] = None,
    ranker: Annotated[
        str,
        typer.Option(
            "--ranker", help="support, logistic, bm25, or the folder of a trained one.", metavar="RANKER"
        ),
    ] = "support",
    min_probability: Annotated[
        float | None,
        typer.Option(
            "--min-probability",
            min=0,
            max=1,
            help="From which on a sentence supports a line. (default: as the ranker was tuned, else 0.4)",
            metavar="P",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="At most so many sentences under a line.")] = 5,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page as well.", metavar="FILE", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a line is unsupported.")] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep the vectors of the source for the next time.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Find the sentences of a source that support each line of a generated text.

    A line is supported where a sentence reaches the probability, weak where one reaches half of it, and
    else unsupported. It shows where to look; whether a line is true is for the reader to say.

    Example: evigraph verify summary.txt note.txt
    """
    from cases.files import write_atomically
    from cli.counted_progress import CountedProgress
    from cli.print_verification import print_verification
    from cli.terminal import print_json
    from evals.verification.page import render
    from evals.verification.report import Report
    from ranking.load import load_ranker
    from ranking.source_vectors import with_source
    from ranking.verify import verify as find_support
    from weights.registry import cache_root

    lines, against = _texts(note, source, case)
    encoding = CountedProgress("sentences encoded", len(against.sentences))
    loaded, vectors = with_source(
        load_ranker(ranker),
        against.sentences,
        cache_root() / "sources" if cache else None,
        encoding.update,
    )
    with encoding:
        found = find_support(loaded, lines, against.sentences, threshold=min_probability)
    report = Report(
        note=str(note),
        source=against.name,
        ids=against.ids,
        ranker=loaded.identity,
        verification=found,
        source_encoded=vectors.encoded if vectors else None,
    )
    if html is not None:
        write_atomically(html, [render(report).encode("utf-8", "replace")])
    if as_json:
        print_json({**report.as_json(), "html": str(html) if html else None})
    else:
        print_verification(report, rows, html)
    if strict and found.count("unsupported"):
        raise typer.Exit(1)


def _texts(note: Path, source: Path | None, case: str | None) -> tuple[tuple[str, ...], Source]:
    from evals.verification.texts import read_lines, read_run, read_source

    if note.is_dir():
        if source is not None:
            raise typer.BadParameter("a run brings its own source; leave SOURCE out", param_hint="SOURCE")
        if case is None:
            raise typer.BadParameter("which case of the run? --case ID", param_hint="--case")
        return read_run(note, case)
    if source is None:
        raise typer.BadParameter(
            f"what was {note} made from? Give its text or case file", param_hint="SOURCE"
        )
    return read_lines(note), read_source(source, case)
