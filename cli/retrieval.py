"""`evigraph retrieval`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.options import JsonOption, KeyOption

if TYPE_CHECKING:
    from evals.retrieval.report import Examples
    from ranking.cutoffs import Cutoff
    from ranking.prepared import QueryMode


def retrieval(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Files of labelled examples (ArchEHR XML, .jsonl), and folders of SciFact or Evidence"
            " Inference.",
            metavar="DATA...",
            show_default=False,
        ),
    ],
    retriever: Annotated[
        str,
        typer.Option(
            "--retriever",
            help="similarity, bm25, logistic, similarity:FOLDER of a sentence encoder, or the folder of a"
            " trained ranker.",
            metavar="RANKER",
        ),
    ] = "similarity",
    reader: Annotated[
        Literal["scifact", "evidence_inference", "archehr", "jsonl"] | None,
        typer.Option(
            "--reader", help="Format of the data. (default: by its files and fields)", show_default=False
        ),
    ] = None,
    key: KeyOption = None,
    query: Annotated[
        Literal["patient", "clinician", "both"],
        typer.Option("--query", help="What a note is searched for, where queries are not compared."),
    ] = "both",
    cutoff: Annotated[
        str, typer.Option("--cutoff", help="The rule where cut-offs are not compared.", metavar="RULE")
    ] = "surprise",
    acronyms: Annotated[
        Path | None,
        typer.Option(
            "--acronyms",
            help="YAML of acronyms and long forms, beside or in place of the packaged ones.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with a plot to this file.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how well sentences are retrieved: by cut-off, by query, by preparation. Calls no model.

    Labels of people are needed; sentences that are essential count. Brackets are 95 % intervals by bootstrap
    over examples.

    Example: evigraph retrieval cases.xml --retriever similarity --html retrieval.html
    """
    from cli.print_retrieval import print_retrieval
    from cli.terminal import messages, output, print_json, safe
    from evals.retrieval.render import as_json as report_object
    from evals.retrieval.render import write_page
    from evals.retrieval.report import evaluate
    from ranking.load import load_ranker
    from ranking.prepared import load_acronyms

    rule = _rule(cutoff)
    table = load_acronyms(acronyms)
    examples = _examples(data, reader, key)
    own: QueryMode | None = query if query in examples else None
    console = messages()
    report = evaluate(
        load_ranker(retriever),
        examples,
        own,
        rule,
        table,
        lambda text: console.print(safe(text), soft_wrap=True),
    )
    if html is not None:
        write_page(html, report)
    if as_json:
        print_json(report_object(report))
        return
    print_retrieval(report)
    if html is not None:
        output().print(safe(f"page  {html}"))


def _rule(text: str) -> Cutoff:
    from ranking.cutoffs import parse_cutoff

    try:
        return parse_cutoff(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cutoff") from None


def _examples(
    data: list[Path],
    reader: Literal["scifact", "evidence_inference", "archehr", "jsonl"] | None,
    keys: list[Path] | None,
) -> Examples:
    """With each query where the data are cases, and else with their own."""
    from ranking.readers.archehr import ArchehrOptions
    from ranking.readers.load import are_archehr, load_examples

    if keys and reader not in (None, "archehr"):
        raise typer.BadParameter(f"the reader {reader!r} takes no key", param_hint="--key")
    if not (keys or reader == "archehr" or (reader is None and are_archehr(data))):
        return {None: load_examples(data, reader)}
    modes: tuple[QueryMode, ...] = ("patient", "clinician", "both")
    options = {mode: ArchehrOptions(keys=tuple(keys or ()), query=mode) for mode in modes}
    return {mode: load_examples(data, of_mode) for mode, of_mode in options.items()}
