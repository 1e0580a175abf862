"""`evigraph index`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.data.corpus import build_report, build_result, print_hits, size
from cli.flags import DataFlags
from cli.terminal import Result, plural, print_facts, print_line
from retrieval.index.connect_store import store_help

if TYPE_CHECKING:
    from retrieval.index.index import Index
    from retrieval.index.manifest import Manifest

index = typer.Typer(no_args_is_help=True, help="Vector indexes over a corpus: search documents by meaning.")

FolderArgument = Annotated[Path, typer.Argument(help="An index's folder.", metavar="FOLDER")]
CorpusOption = Annotated[
    Path | None,
    typer.Option("--corpus", help="Folder of its corpus, if that has moved.", metavar="FOLDER"),
]
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


@index.command("build")
def build(
    corpus: Annotated[Path, typer.Argument(help="Folder of a finished corpus.", metavar="CORPUS")],
    out: Annotated[Path, typer.Option(help="Folder of the index.")],
    store: Annotated[
        str,
        typer.Option(
            help=store_help(),
            metavar="NAME",
        ),
    ] = "numpy",
    embedding: Annotated[
        str,
        typer.Option(
            help="embedded:minilm, embedded:FOLDER of a sentence encoder, lexical:N, or openai:NAME@URL."
        ),
    ] = "embedded:minilm",
    vectors_of: Annotated[
        Path | None,
        typer.Option(
            help="Reuse the vectors of this index of the same corpus and encode only missing ones: for"
            " another store.",
            metavar="INDEX",
        ),
    ] = None,
    *,
    data: DataFlags,
) -> Result:
    """Build an index of vectors over a corpus, or continue one that was interrupted.

    Repeat the command to continue an interrupted build: stored vectors are not encoded again.
    Documents that the corpus has gained since are added.

    Example: evigraph index build corpora/pubmed --out indexes/pubmed --store chroma
    """
    import asyncio

    from cli.progress import progress
    from retrieval.index.build import BuildOptions, build_index

    options = BuildOptions(store=store, embedding=embedding, vectors_of=vectors_of)
    with progress() as shown:
        built = asyncio.run(build_index(corpus, out, options, report=build_report(shown)))

    unchanged = "this index is finished, and its corpus is as it was"
    return build_result(built, "index", out, _what(built.manifest), _summary(built.manifest, out), unchanged)


@index.command("search")
def search(
    folder: FolderArgument,
    query: Annotated[str, typer.Argument(help="A question, or any text.")],
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many documents.")] = 10,
    corpus: CorpusOption = None,
    *,
    data: DataFlags,
) -> Result:
    """Show the documents nearest to a text.

    Example: evigraph index search indexes/pubmed "Does ginger help against nausea?" -k 5
    """
    import asyncio
    from dataclasses import asdict

    opened = _open(folder, corpus)
    try:
        hits = asyncio.run(opened.asearch(query, count))
    finally:
        opened.close()
    found = [{"rank": hit.rank, "score": round(hit.score, 6), **asdict(hit.document)} for hit in hits]
    return Result({"query": query, "documents": found}, partial(print_hits, hits, "cosine"))


@index.command("show")
def show(folder: FolderArgument) -> Result:
    """Show an index: documents, embedder, store, time and size of its build.

    Example: evigraph index show indexes/pubmed
    """
    from retrieval.index.manifest import Manifest

    manifest = Manifest.read_finished(folder)
    summary = _summary(manifest, folder)
    effort = manifest.effort
    rate = f", {effort.documents / effort.seconds:,.1f} a second" if effort.seconds else ""
    rows = (
        ("store", manifest.store),
        ("vectors", f"{manifest.dimensions} dimensions"),
        ("embedder", manifest.embedder),
        ("corpus", f"{manifest.corpus.folder} ({manifest.corpus.identity})"),
        ("on disk", size(summary["bytes"])),
        ("build", f"{span(effort.seconds)} for {plural(effort.documents, 'document')}{rate}"),
        ("memory of the build", f"{effort.peak_mb:,.0f} MB"),
        ("a query", "not measured" if manifest.query_ms is None else f"{manifest.query_ms:,.2f} ms"),
    )

    def print_index() -> None:
        print_line(f"{folder}: {_what(manifest)}")
        print_facts(rows)

    return Result({"folder": str(folder), **summary}, print_index)


@index.command("recall")
def recall(
    folder: FolderArgument,
    queries: Annotated[int, typer.Option(min=1, help="Number of titles to search for.")] = 200,
    corpus: CorpusOption = None,
    *,
    data: DataFlags,
) -> Result:
    """Measure the share of nearest documents that an index finds, compared with an exact search.

    The queries are titles of documents spread over the corpus.

    Example: evigraph index recall indexes/pubmed --queries 500
    """
    import asyncio

    from retrieval.index.figures import measure, questions

    opened = _open(folder, corpus)
    try:
        vectors = asyncio.run(opened.aembed(questions(opened.corpus, queries)))
        found = measure(opened.store, vectors)
    finally:
        opened.close()

    def print_recall() -> None:
        searched = f"{plural(found.queries, 'title')}, {plural(len(opened), 'document')}"
        print_line(f"{searched}, store {opened.manifest.store}")
        for depth, share in found.recall.items():
            print_line(f"recall@{depth} {share:.4f}")
        print_line(f"a query: median {found.query_ms:,.2f} ms, p95 {found.query_p95_ms:,.2f} ms")
        print_line(f"processor time of a query: p95 {found.processor_p95_ms:,.2f} ms")

    return Result({"folder": str(folder), **found._asdict()}, print_recall)


def span(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, length in (("days", _DAY), ("hours", _HOUR), ("minutes", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} seconds"


def _open(folder: Path, corpus: Path | None) -> Index:
    from retrieval.corpus.corpus import Corpus
    from retrieval.index.index import Index
    from serving.policy.gate import hold_for

    hold_for([folder] if corpus is None else [folder, corpus])
    return Index.open(folder, None if corpus is None else Corpus.open(corpus))


def _what(manifest: Manifest) -> str:
    return (
        f"{plural(manifest.documents, 'document')}, {manifest.dimensions} dimensions, by {manifest.embedding}"
    )


def _summary(manifest: Manifest, folder: Path) -> dict[str, Any]:
    """The manifest, but for what only the build needs, and the bytes on disk."""
    from retrieval.building import bytes_in

    return {
        **manifest.model_dump(exclude={"format", "passages", "complete", "collection"}),
        "bytes": bytes_in(folder),
    }
