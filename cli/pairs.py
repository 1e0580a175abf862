"""`evigraph pairs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.options import JsonOption, PartOption

if TYPE_CHECKING:
    from evals.search.training_pairs import PairCounts


def pairs(
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
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON lines.", metavar="FILE", show_default=False)],
    index: Annotated[
        Path | None,
        typer.Option("--index", help="Index of its vectors.", metavar="FOLDER", show_default=False),
    ] = None,
    retriever: Annotated[
        Literal["words", "dense", "hybrid"] | None,
        typer.Option(
            "--retriever", help="Whose finds are hard. (default: hybrid with an index)", show_default=False
        ),
    ] = None,
    negatives: Annotated[
        int, typer.Option("--negatives", min=1, help="Irrelevant documents of each question.")
    ] = 20,
    years: Annotated[
        int | None,
        typer.Option(
            "--years",
            min=0,
            help="Only questions of the newest year and so many before it, by their BioASQ ids.",
            show_default=False,
        ),
    ] = None,
    part: PartOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="Only the first N questions.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the choice of documents.")] = 42,
    as_json: JsonOption = False,
) -> None:
    """Make training examples of a reranker: relevant documents, and hard ones that a search finds.

    A question is one line: its relevant documents, also those that the search misses, and irrelevant ones,
    half from the first 100 places and half from those up to 1,000, in an order of chance.

    Example: evigraph pairs training13b.json --corpus corpora/pubmed --years 3 --out pairs.jsonl
    """
    import asyncio

    from cli.counted_progress import CountedProgress
    from cli.terminal import print_json
    from evals.search.parts import Part
    from evals.search.questions import load_questions
    from evals.search.retrievers import Retrievers
    from evals.search.training_pairs import PairOptions, write_training_examples

    chosen = None if part is None else Part.parse(part)
    loaded = load_questions(questions, years=years, part=chosen, limit=limit)
    retrievers = Retrievers.open(corpus, index)
    options = PairOptions(retrievers.chosen(retriever), negatives, seed)
    with CountedProgress("questions", len(loaded.questions)) as progress:
        counts = asyncio.run(
            write_training_examples(out, retrievers, loaded.questions, options, progress.update)
        )
    if as_json:
        print_json(
            {
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
        )
        return
    _print(out, options.retriever, counts, loaded.unjudged)


def _print(out: Path, retriever: str, counts: PairCounts, unjudged: int) -> None:
    from cli.terminal import output, safe

    console = output()
    console.print(
        safe(
            f"{counts.questions:,} questions with {counts.positives:,} relevant and {counts.negatives:,} hard"
            f" irrelevant documents, in {out}"
        ),
        soft_wrap=True,
    )
    found = ", ".join(f"{value:.3f} at {depth:,}" for depth, value in counts.recall.items())
    console.print(safe(f"recall by {retriever}: {found}; {counts.not_found:,} relevant ones not found"))
    if counts.missing:
        console.print(safe(f"relevant documents that the corpus does not hold: {counts.missing:,}", "yellow"))
    if left := counts.without_relevant + unjudged:
        console.print(safe(f"questions without a relevant document, left out: {left:,}", "yellow"))
    console.print(safe(f"next: evigraph train reranker --data {out}"), soft_wrap=True)
