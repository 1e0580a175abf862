"""`evigraph rankings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.options import JsonOption, PartOption


def rankings(
    questions: Annotated[
        list[Path],
        typer.Argument(
            help="BioASQ questions with their documents, or SciFact's claims.",
            metavar="QUESTIONS...",
            show_default=False,
        ),
    ],
    corpus: Annotated[
        Path, typer.Option("--corpus", help="Corpus to search.", metavar="FOLDER", show_default=False)
    ],
    index: Annotated[
        Path | None,
        typer.Option("--index", help="Index of its vectors.", metavar="FOLDER", show_default=False),
    ] = None,
    reranker: Annotated[
        list[str] | None,
        typer.Option(
            "--reranker",
            help="Folder of a trained ranker, or classifier:FOLDER of a cross-encoder. Repeatable.",
            metavar="RANKER",
            show_default=False,
        ),
    ] = None,
    depths: Annotated[
        str, typer.Option("--depths", help="How many documents rerankers are given, parted by commas.")
    ] = "10,100",
    retriever: Annotated[
        Literal["words", "dense", "hybrid"] | None,
        typer.Option(
            "--retriever",
            help="Whose documents rerankers are given. (default: hybrid with an index)",
            show_default=False,
        ),
    ] = None,
    depth: Annotated[
        int, typer.Option("--depth", min=10, help="How many documents are searched for.")
    ] = 1000,
    part: PartOption = None,
    tune: Annotated[
        str | None,
        typer.Option(
            "--tune",
            help="Choose the weights of an ensemble of each reranker and the retriever on this part of the"
            " questions, such as 1/2; the others test it.",
            metavar="N/M",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="Only the first N questions.", show_default=False),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            help="Keep scores of rerankers in this file; the same command goes on with them.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs", help="Write rankings in TREC's formats.", metavar="FOLDER", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with plots to this file.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how well documents are found and put in order, against those known to be relevant.

    Later rows of a table are tested against its first. Brackets are 95 % intervals by bootstrap over
    questions. Calls no language model.

    Example: evigraph rankings claims.jsonl --corpus corpora/scifact --reranker rankers/mine --depths 10,100
    """
    import asyncio

    from cli.counted_progress import CountedProgress
    from cli.print_rankings import print_rankings
    from cli.terminal import output, print_json, safe
    from evals.search.evaluate import Request, evaluate
    from evals.search.parts import Part
    from evals.search.render import as_json as report_object
    from evals.search.render import write_page

    request = Request(
        questions=tuple(questions),
        corpus=corpus,
        index=index,
        rerankers=tuple(reranker or ()),
        depths=_depths(depths, depth),
        retriever=retriever,
        depth=depth,
        part=None if part is None else Part.parse(part),
        tune=None if tune is None else Part.parse(tune, "--tune"),
        limit=limit,
        cache=cache,
        runs=runs,
    )
    report = asyncio.run(evaluate(request, CountedProgress))
    if html is not None:
        write_page(html, report)
    if as_json:
        print_json(report_object(report))
        return
    print_rankings(report)
    for name, path in (("runs", runs), ("page", html)):
        if path is not None:
            output().print(safe(f"{name}  {path}"), soft_wrap=True)
    if html is None:
        output().print("next: the same command with --html FILE writes a page with plots")


def _depths(text: str, deepest: int) -> tuple[int, ...]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise typer.BadParameter(f"{text!r}: give numbers, such as 10,100", param_hint="--depths") from None
    if not found[0] > 0 or found[-1] > deepest:
        fault = f"{text!r}: from 1 to {deepest}, the depth of the search"
        raise typer.BadParameter(fault, param_hint="--depths")
    return tuple(found)
