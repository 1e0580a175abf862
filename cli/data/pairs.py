"""`evigraph pairs`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cases.texts import plural, quoted
from cli.flags import DataFlags
from cli.options import (
    PartOption,
    QuestionLimitOption,
    QuestionsArgument,
    SearchedCorpusOption,
    VectorIndexOption,
)
from cli.terminal import Result, print_line

if TYPE_CHECKING:
    from evals.search.training_pairs import PairCounts


def pairs(
    questions: QuestionsArgument,
    corpus: SearchedCorpusOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of JSON lines to write.", metavar="FILE")],
    index: VectorIndexOption = None,
    retriever: Annotated[
        Literal["words", "dense", "hybrid"] | None,
        typer.Option(
            help="Which search finds the hard negatives. (default: hybrid with an index, else words)"
        ),
    ] = None,
    negatives: Annotated[int, typer.Option(min=1, help="Irrelevant documents per question.")] = 20,
    years: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Only questions of the newest year and this many years before it, by their BioASQ ids.",
        ),
    ] = None,
    part: PartOption = None,
    limit: QuestionLimitOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of documents.")] = 42,
    *,
    data: DataFlags,
) -> Result:
    """Make training examples for a reranker: relevant documents, and hard negatives from a search.

    A question is one line: its relevant documents, also those that the search misses, and irrelevant ones,
    half from the first 100 places and half from those up to 1,000, in random order.

    Example: evigraph pairs training13b.json --corpus corpora/pubmed --years 3 --out pairs.jsonl
    """
    import asyncio

    from cli.progress import progress
    from evals.search.questions import Part, load_questions
    from evals.search.retrievers import Retrievers
    from evals.search.training_pairs import PairOptions, write_training_examples

    chosen = None if part is None else Part.parse(part)
    loaded = load_questions(questions, years=years, part=chosen, limit=limit)
    retrievers = Retrievers.open(corpus, index)
    options = PairOptions(retrievers.chosen(retriever), negatives, seed)
    with progress("questions", len(loaded.questions)) as shown:
        counts = asyncio.run(
            write_training_examples(out, retrievers, loaded.questions, options, shown.advance)
        )
    content = {
        "file": str(out),
        "retriever": options.retriever,
        "questions": counts.questions,
        "left_out": counts.without_relevant + loaded.unjudged,
        "positives": counts.positives,
        "negatives": counts.negatives,
        "missing": counts.missing,
        "not_found": counts.not_found,
        "recall": {str(depth): value for depth, value in counts.recall.items()},
    }
    return Result(content, partial(_print, out, options.retriever, counts, loaded.unjudged))


def _print(out: Path, retriever: str, counts: PairCounts, unjudged: int) -> None:
    print_line(
        f"{plural(counts.questions, 'question')} with {counts.positives:,} relevant and"
        f" {counts.negatives:,} hard irrelevant documents, in {out}"
    )
    found = ", ".join(f"{value:.3f} at {depth:,}" for depth, value in counts.recall.items())
    print_line(f"recall by {retriever}: {found}; {counts.not_found:,} relevant ones not found")
    if counts.missing:
        print_line(f"relevant documents that the corpus does not hold: {counts.missing:,}", "yellow")
    if left := counts.without_relevant + unjudged:
        print_line(f"questions without a relevant document, left out: {left:,}", "yellow")
    print_line(f"next: evigraph train reranker --data {quoted(out)}")
