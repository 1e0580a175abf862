"""`evigraph retrieval`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cases.texts import plural
from cli.options import ExampleFormat, ExamplesArgument, FormatOption, HtmlOption, JsonOption, KeyOption
from cli.rank import cutoff_rule
from cli.terminal import print_json, print_line, print_message

if TYPE_CHECKING:
    from evals.retrieval.report import Examples, RetrievalReport
    from ranking.prepared import QueryMode


def retrieval(
    data: ExamplesArgument,
    retriever: Annotated[
        str,
        typer.Option(
            help="similarity, bm25, logistic, similarity:FOLDER of a sentence encoder, or the folder of a"
            " trained ranker.",
            metavar="RANKER",
        ),
    ] = "similarity",
    reader: FormatOption = None,
    key: KeyOption = None,
    query: Annotated[
        Literal["patient", "clinician", "both"],
        typer.Option(help="The query, except where queries are compared."),
    ] = "both",
    cutoff: Annotated[
        str, typer.Option(help="The cut-off, except where cut-offs are compared.", metavar="RULE")
    ] = "surprise",
    acronyms: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of acronyms and long forms, which extend or replace the packaged ones.",
            metavar="FILE",
        ),
    ] = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how well sentences are retrieved: by cut-off, by query, by preparation. Calls no model.

    It needs labels by people; essential sentences are the relevant ones. Brackets are 95 % intervals by
    bootstrap over examples.

    Example: evigraph retrieval cases.xml --retriever similarity --html retrieval.html
    """
    from evals.pages.page import write_page
    from evals.retrieval.report import as_json as report_object
    from evals.retrieval.report import evaluate, render
    from ranking.load import load_ranker
    from ranking.prepared import load_acronyms

    rule = cutoff_rule(cutoff)
    table = load_acronyms(acronyms)
    examples = _examples(data, reader, key)
    own: QueryMode | None = query if query in examples else None
    report = evaluate(
        load_ranker(retriever),
        examples,
        own,
        rule,
        table,
        lambda text: print_message(text, soft_wrap=True),
    )
    if html is not None:
        write_page(html, render(report))
    if as_json:
        print_json(report_object(report))
        return
    _print(report)
    if html is not None:
        print_line(f"page  {html}")


def _examples(
    data: list[Path],
    reader: ExampleFormat | None,
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


def _print(report: RetrievalReport) -> None:
    """All tables; precision, recall and F1 without a word are micro."""
    from cli.terminal import print_table
    from evals.retrieval.report import floor_table, short_table

    print_line(
        f"{report.examples:,} labelled examples; {report.evidence:,} of"
        f" {plural(report.sentences, 'sentence')}"
        f" are evidence; the longest document has {report.longest:,}",
        soft_wrap=True,
    )
    if report.unlabelled:
        print_line(f"not labelled by people, and left out: {report.unlabelled:,}", "yellow")
    for table in report.tables:
        print_line()
        print_line(table.caption, soft_wrap=True)
        print_table(short_table(table))
    print_line()
    print_table(floor_table(report.floors))
