"""`evigraph rankings`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cases.texts import plural
from cli.flags import DataFlags
from cli.options import (
    HtmlOption,
    PartOption,
    QuestionLimitOption,
    QuestionsArgument,
    SearchedCorpusOption,
    VectorIndexOption,
)
from cli.terminal import Result, print_line, print_table

if TYPE_CHECKING:
    from evals.search.report import SearchReport


def rankings(
    questions: QuestionsArgument,
    corpus: SearchedCorpusOption,
    index: VectorIndexOption = None,
    reranker: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder of a trained ranker, or classifier:FOLDER of a cross-encoder. Repeatable.",
            metavar="RANKER",
        ),
    ] = None,
    depths: Annotated[
        str, typer.Option(help="How many documents rerankers are given, separated by commas.")
    ] = "10,100",
    retriever: Annotated[
        Literal["words", "dense", "hybrid"] | None,
        typer.Option(
            help="Which search gives rerankers their documents. (default: hybrid with an index, else words)"
        ),
    ] = None,
    depth: Annotated[int, typer.Option(min=10, help="How many documents a search returns.")] = 1000,
    part: PartOption = None,
    tune: Annotated[
        str | None,
        typer.Option(
            help="Choose the weights of an ensemble of each reranker and the retriever on this part of the"
            " questions, such as 1/2, and test them on the others.",
            metavar="N/M",
        ),
    ] = None,
    limit: QuestionLimitOption = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Store scores of rerankers in this file; the same command continues from them.",
            metavar="FILE",
        ),
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Write rankings in TREC formats.", metavar="FOLDER")
    ] = None,
    html: HtmlOption = None,
    *,
    data: DataFlags,
) -> Result:
    """Measure retrieval and reranking against documents known to be relevant.

    Later rows of a table are tested against its first. Brackets are 95 % intervals by bootstrap over
    questions. Calls no language model.

    Example: evigraph rankings claims.jsonl --corpus corpora/scifact --reranker rankers/mine --depths 10,100
    """
    import asyncio

    from cli.progress import progress
    from evals.pages.page import write_page
    from evals.search.evaluate import Request, evaluate
    from evals.search.questions import Part
    from evals.search.report import as_json as report_object
    from evals.search.report import render

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
    report = asyncio.run(evaluate(request, progress))
    if html is not None:
        write_page(html, render(report))

    def print_report() -> None:
        _print(report)
        for name, path in (("runs", runs), ("page", html)):
            if path is not None:
                print_line(f"{name}  {path}")
        if html is None:
            print_line("next: the same command with --html FILE writes a page with plots")

    return Result(report_object(report), print_report)


def _depths(text: str, deepest: int) -> tuple[int, ...]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise typer.BadParameter(f"{text!r}: give numbers, such as 10,100", param_hint="--depths") from None
    if not found[0] > 0 or found[-1] > deepest:
        fault = f"{text!r}: from 1 to {deepest}, the depth of the search"
        raise typer.BadParameter(fault, param_hint="--depths")
    return tuple(found)


def _print(report: SearchReport) -> None:
    from evals.search.report import table_of

    part = "" if report.part is None else f"part {report.part}: "
    print_line(
        f"{part}{plural(report.questions, 'question')} with {report.relevant:,} relevant documents,"
        f" {plural(report.documents, 'document')} searched"
    )
    if report.missing:
        print_line(f"relevant, and not in the corpus: {plural(report.missing, 'document')}", "yellow")
    if report.unjudged:
        print_line(f"without a relevant document, and left out: {plural(report.unjudged, 'question')}")
    for table in report.tables:
        print_line()
        print_line(table.caption)
        print_table(table_of(table), below=True)
