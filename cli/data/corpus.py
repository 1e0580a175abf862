"""`evigraph corpus`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cases.texts import quoted
from cli.terminal import Result, plural, print_facts, print_line, print_message, print_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.progress import Progress
    from retrieval.building import Built
    from retrieval.building import Progress as Step
    from retrieval.corpus.corpus import Corpus
    from retrieval.corpus.manifest import Manifest, Tally
    from retrieval.protocols import Hit

corpus = typer.Typer(
    no_args_is_help=True, help="Corpora of published documents on disk, searched by their words."
)

FolderArgument = Annotated[Path, typer.Argument(help="A corpus's folder.", metavar="FOLDER")]

_FAULTS_SHOWN = 5
_BAR = 40


@corpus.command("build")
def build(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="PubMed XML (.xml, .xml.gz) or JSON lines (.jsonl, .jsonl.gz); or folders of them.",
            metavar="PATH...",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the corpus.")],
    citations: Annotated[
        Path | None,
        typer.Option(
            help="How often each document is cited: a .json of {ID: COUNT}, or a file of two columns.",
            metavar="FILE",
        ),
    ] = None,
    min_df: Annotated[
        int, typer.Option(min=1, help="Leave out words that occur in fewer documents than this.")
    ] = 1,
    part_size: Annotated[int, typer.Option(min=1, help="Documents per part; memory grows with it.")] = 50_000,
    reader: Annotated[
        Literal["pubmed", "jsonl"] | None, typer.Option(help="How files are read. (default: by their names)")
    ] = None,
) -> Result:
    """Build a corpus of dated documents, or continue one that was interrupted.

    A build that was killed continues after its last finished part when the command is given again. Files
    added at the end of the list are added to the corpus. A record that cannot be read is skipped and counted.

    Example: evigraph corpus build pubmed/ --out corpora/pubmed --min-df 10
    """
    from cli.progress import progress
    from retrieval.corpus.build import BuildOptions
    from retrieval.corpus.build import build as build_corpus

    options = BuildOptions(min_df=min_df, part_size=part_size, citations=citations, reader=reader)
    with progress() as shown:
        built = build_corpus(paths, out, options, report=build_report(shown))
    _print_faults(built.manifest, out)

    unchanged = "this corpus is finished, and its files are as they were"
    return build_result(built, "corpus", out, _what(built.manifest), _summary(built.manifest, out), unchanged)


def build_result(
    built: Built[Any], kind: str, out: Path, what: str, summary: dict[str, Any], unchanged: str
) -> Result:
    """Result of a build of a corpus or an index; `unchanged` says what a finished one is."""

    def print_built() -> None:
        if built.unchanged:
            print_line(f"unchanged: {unchanged}")
        elif built.found:
            print_line(f"continued after {plural(built.found, 'document')}")
        print_line(f"{what} in {out}")
        print_line(f'next: evigraph {kind} search {quoted(out)} "QUESTION"')

    state = {"folder": str(out), "unchanged": built.unchanged, "found": built.found}
    return Result({**state, **summary}, print_built)


def build_report(shown: Progress) -> Callable[[Step], None]:
    """Shows the stages of a build of a corpus or an index."""
    from cli.progress import Steps

    steps = Steps(shown, percent=True)
    return lambda step: steps.show(step.stage, step.done, step.total, plural(step.documents, "document"))


@corpus.command("search")
def search(
    folder: FolderArgument,
    query: Annotated[str, typer.Argument(help="A question, or words.")],
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many documents.")] = 10,
) -> Result:
    """Show the documents that share the most informative words with a text.

    Example: evigraph corpus search corpora/pubmed "Does ginger help against nausea?" -k 5
    """
    from dataclasses import asdict

    from retrieval.corpus.corpus import Corpus

    hits = Corpus.open(folder).search(query, count)
    found = [{"rank": hit.rank, "score": hit.score, **asdict(hit.document)} for hit in hits]
    return Result({"query": query, "documents": found}, partial(print_hits, hits, "score"))


def print_hits(hits: Sequence[Hit], score: str) -> None:
    """Print documents that a search found; `score` is what their scores are called."""
    if not hits:
        print_line("no document shares a word with this text, stop words aside")
        return
    numbers = ("rank", score, "year", "cited")
    rows = [
        (
            str(hit.rank),
            f"{hit.score:.3f}",
            "-" if hit.document.year is None else str(hit.document.year),
            "-" if hit.document.citations is None else f"{hit.document.citations:,}",
            hit.document.id,
            hit.document.title or hit.document.text[:60],
            ", ".join(hit.document.study_types),
            hit.document.source,
        )
        for hit in hits
    ]
    print_rows((*numbers, "id", "title", "kind of study", "source"), rows, right=numbers)


@corpus.command("show")
def show(folder: FolderArgument) -> Result:
    """Show a corpus: documents, years, skipped records, sizes.

    Example: evigraph corpus show corpora/pubmed
    """
    from retrieval.corpus.corpus import Corpus

    opened = Corpus.open(folder)
    content = {"folder": str(folder), "identity": opened.identity, **_summary(opened.manifest, folder)}
    return Result(content, partial(_print_corpus, opened, folder))


def _print_corpus(opened: Corpus, folder: Path) -> None:
    from retrieval.corpus.manifest import spans

    manifest = opened.manifest
    print_line(f"{folder}: {_what(manifest)}")
    print_facts([*_rows(manifest, folder), ("identity", opened.identity)])
    found = spans(manifest.tally.years)
    most = max((span.documents for span in found), default=0)
    for span in found:
        label = str(span.first) if span.first == span.last else f"{span.first}-{span.last}"
        bar = "#" * round(_BAR * span.documents / most)
        print_line(f"{label:9}  {span.documents:>10,}  {bar}".rstrip())
    _print_faults(manifest, folder)


def _what(manifest: Manifest) -> str:
    years = manifest.tally.years
    span = f" of {min(years)} to {max(years)}" if years else ""
    return f"{plural(manifest.tally.documents, 'document')}{span}"


def _rows(manifest: Manifest, folder: Path) -> list[tuple[str, str]]:
    from retrieval.building import bytes_in

    tally, settings = manifest.tally, manifest.settings
    return [
        ("files", f"{len(manifest.sources):,}, such as {manifest.sources[0].path}"),
        ("skipped", _skipped(tally) or "nothing"),
        ("without year", f"{tally.without_year:,}"),
        ("with citations", f"{tally.with_citations:,}"),
        ("words", f"{manifest.terms:,} different, {manifest.mean_length:,.1f} a document"),
        (
            "scored",
            f"BM25, k1 {settings.k1}, b {settings.b}, words of at least"
            f" {plural(settings.min_df, 'document')}",
        ),
        ("on disk", f"{size(bytes_in(folder))} in {manifest.parts:,} parts"),
    ]


def _skipped(tally: Tally) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(tally.skipped.items()))


def size(count: float) -> str:
    """Bytes in the unit that suits them."""
    for unit, bytes_of in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= bytes_of:
            return f"{count / bytes_of:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def _summary(manifest: Manifest, folder: Path) -> dict[str, Any]:
    """Fields of the manifest that people and programs ask for, and the bytes on disk."""
    from retrieval.building import bytes_in

    kept = {"settings", "tally", "parts", "terms", "postings", "mean_length", "versions"}
    return {
        **manifest.model_dump(include=kept),
        "files": [source.path for source in manifest.sources],
        "bytes": bytes_in(folder),
    }


def _print_faults(manifest: Manifest, folder: Path) -> None:
    tally = manifest.tally
    total = sum(tally.skipped.values())
    if not total:
        return
    for fault in (*tally.damaged, *tally.faults[:_FAULTS_SHOWN]):
        print_message(f"skipped: {fault}")
    kept = len(tally.faults)
    more = f"; the first {kept} are in {folder}/corpus.json" if kept > _FAULTS_SHOWN else ""
    print_message(f"{plural(total, 'record')} skipped: {_skipped(tally)}{more}")
