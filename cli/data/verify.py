"""`evigraph verify`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cases.texts import plural
from cli.options import HtmlOption, run_folder
from cli.terminal import Result, output, print_line, safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from evals.verification import Report, Source
    from nodes.verification.support import Support
    from ranking.verify import VerifiedLine

_NO_PROBABILITIES = "its scores are not probabilities: they point to a sentence, but do not prove support"


def verify(
    note: Annotated[
        Path,
        typer.Argument(
            help="A generated text, '-' for standard input, or a run folder.",
            metavar="NOTE|RUN",
            parser=run_folder,
        ),
    ],
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Source of the text: a text or case file (.xml, .jsonl). Omit it with a run.",
            metavar="SOURCE",
        ),
    ] = None,
    case: Annotated[str | None, typer.Option(help="Case of the case file or the run.", metavar="ID")] = None,
    ranker: Annotated[
        str,
        typer.Option(help="support, logistic, bm25, or the folder of a trained ranker.", metavar="RANKER"),
    ] = "support",
    min_probability: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Least probability at which a sentence supports a line. (default: as the ranker was tuned,"
            " else 0.4)",
            metavar="P",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most sentences listed under a line.")] = 5,
    html: HtmlOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a line is not supported.")] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Store the vectors of the source for the next time.")
    ] = True,
) -> Result:
    """Find the sentences of a source that support each line of a generated text.

    Of a run without --case, all answers are verified, and the share of their sentences with support is given.
    A line is supported if a sentence reaches the probability; otherwise it is marked as not stated, with the
    sentences that reach half of it. This shows where to look; whether a line is true is for the reader to
    decide.

    Example: evigraph verify summary.txt note.txt
    """
    from cli.progress import progress
    from evals.verification import Report, render
    from ranking.rankers.load import load_ranker, name_with_identity
    from ranking.rankers.ranker import KeepsSources
    from ranking.verify import verify as find_support
    from storage.files import write_atomically
    from weights.registry import cache_root

    if note.is_dir() and case is None and source is None:
        if html is not None:
            raise typer.BadParameter("a page shows one case: give --case ID", param_hint="--html")
        return _whole_run(note, ranker, min_probability, rows, strict=strict)
    lines, against = _texts(note, source, case)
    with progress("sentences encoded", len(against.sentences)) as shown:
        loaded = load_ranker(ranker)
        sources = loaded.sources if isinstance(loaded, KeepsSources) else None
        if sources is not None:
            sources.folder = cache_root() / "sources" if cache else None
            sources.report = shown.advance
        found = find_support(loaded, lines, against.sentences, threshold=min_probability)
    report = Report(
        note=str(note),
        source=against.name,
        ids=against.ids,
        ranker=name_with_identity(ranker, loaded.identity),
        verification=found,
        source_encoded=sources.computed if sources else None,
    )
    if html is not None:
        write_atomically(html, [render(report).encode("utf-8", "replace")])
    content = {**report.as_json(), "html": str(html) if html else None}
    failed = strict and report.count("not_stated")
    return Result(content, partial(_print, report, rows, html), int(bool(failed)))


def _texts(note: Path, source: Path | None, case: str | None) -> tuple[tuple[str, ...], Source]:
    from evals.verification import read_lines, read_run, read_source
    from runs.record.audit import record_if_possible

    if note.is_dir():
        if source is not None:
            raise typer.BadParameter("a run brings its own source; leave SOURCE out", param_hint="SOURCE")
        assert case is not None
        found = read_run(note, case)
        record_if_possible(note, "opened", case=case, command="verify")
        return found
    if source is None:
        raise typer.BadParameter(f"name the source of {note}: a text or case file", param_hint="SOURCE")
    return read_lines(note), read_source(source, case)


def _whole_run(run: Path, ranker: str, min_probability: float | None, rows: int, *, strict: bool) -> Result:
    """Verify every answer; the rate, and the sentences without support."""
    from cli.progress import progress
    from evals.verification import verify_run
    from nodes.verification.support import marked_sentence
    from ranking.rankers.load import load_ranker, name_with_identity
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder

    folder = RunFolder(run)
    with progress("cases", folder.manifest.inputs.cases) as shown:
        loaded = load_ranker(ranker)
        found = verify_run(folder, loaded, min_probability, shown.advance)
    name = name_with_identity(ranker, loaded.identity)
    # It quotes sentences of answers.
    record_if_possible(run, "opened", cases=len(found.answers), command="verify")

    def print_found() -> None:
        marked = [
            (case_id, marked_sentence(one)) for case_id, findings in found.answers.items() for one in findings
        ]
        bare = [(case_id, sentence) for case_id, sentence in marked if sentence.mark]
        for case_id, sentence in bare[:rows]:
            print_line(f"{case_id}  {sentence.words}", "red")
        if len(bare) > rows:
            print_line(f"... and {len(bare) - rows:,} more: --rows {len(bare)}")
        count = f"{plural(len(found.answers), 'answer')} with {plural(found.sentences, 'sentence')}"
        print_line(f"{count}: {_counts(found.count)}")
        if found.without_answer:
            print_line(f"without an answer: {plural(len(found.without_answer), 'case')}")
        if not found.by_probability and found.answers:
            print_line(_NO_PROBABILITIES, "yellow")
        elif found.rate is not None:
            print_line(f"supported: {found.rate:.1f} % of the sentences (by {name})", "bold")

    failed = strict and found.count("not_stated")
    return Result({"run": str(run), "ranker": name, **found.as_json()}, print_found, int(bool(failed)))


def _counts(count: Callable[[Support], int]) -> str:
    from evals.verification import SUPPORTS
    from nodes.verification.support import SUPPORT_WORDS

    return ", ".join(f"{count(support):,} {SUPPORT_WORDS[support]}" for support in SUPPORTS)


def _print(report: Report, rows: int, html: Path | None) -> None:
    """Each line with its support, under it the sentences, and at the end the counts."""
    from rich.padding import Padding
    from rich.table import Table

    console, found = output(), report.verification
    for line, finding, marked in report.marked_lines:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(justify="right", min_width=3)
        grid.add_column(overflow="fold")
        grid.add_row(finding["id"], safe(marked.words, "bold red" if marked.mark else "bold"))
        console.print(grid)
        if line.evidence:
            console.print(Padding(_evidence(report, line, rows), (0, 0, 0, 5)))
        if len(line.evidence) > rows:
            print_line(f"     ... and {len(line.evidence) - rows} more: --rows {len(line.evidence)}")
    print_line()
    held = "" if found.threshold is None else f", from probability {found.threshold:g} on"
    print_line(f"{plural(len(found.lines), 'line')}: {_counts(report.count)} (by {report.ranker}{held})")
    if found.threshold is None:
        print_line(_NO_PROBABILITIES, "yellow")
    cut = sum(line.cut for line in found.lines)
    if found.cut_sentences or cut:
        print_line(
            "over the ranker's limit of length, the end not read:"
            f" {plural(len(found.cut_sentences), 'sentence')}"
            f" and {plural(cut, 'line')}",
            "yellow",
        )
    if html is not None:
        print_line(str(html))


def _evidence(report: Report, line: VerifiedLine, rows: int) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", min_width=4)
    table.add_column(justify="right", min_width=5)
    table.add_column(overflow="fold")
    for one in line.evidence[:rows]:
        value = one.score if one.probability is None else one.probability
        text = report.verification.sentences[one.sentence]
        table.add_row(safe(report.ids[one.sentence], "dim"), f"{value:.2f}", safe(text))
    return table
