"""`evigraph rank`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.options import ExampleFormat, ExamplesArgument, FormatOption, KeyOption
from cli.terminal import Result, plural, print_line, print_message, print_rows, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cli.progress import Progress
    from evals.rankings.scores import RankingScores
    from ranking.cutoffs import Cutoff
    from ranking.examples import Example
    from ranking.rank_file import RankedRow


def rank(
    ranker: Annotated[
        str,
        typer.Argument(
            help="logistic, support, bm25, similarity, similarity:FOLDER of a sentence encoder,"
            " classifier:FOLDER of a cross-encoder, or the folder of a trained ranker.",
            metavar="RANKER",
        ),
    ],
    data: ExamplesArgument,
    reader: FormatOption = None,
    key: KeyOption = None,
    cutoff: Annotated[
        str | None,
        typer.Option(
            help="threshold=P, gap, adaptive=TAU0,WEIGHT, top_k=K, autocut, autocut_star, elbow, surprise or"
            " surprise_clean; threshold=P,empty may select nothing, elbow=min:3 takes at least three."
            " (default: the ranker's own)",
            metavar="RULE",
        ),
    ] = None,
    split: Annotated[
        Literal["held-out", "all"],
        typer.Option(help="held-out: only the examples that the ranker's training held out."),
    ] = "all",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File of JSON lines to write, one per example.", metavar="FILE"),
    ] = None,
    submission: Annotated[
        Path | None,
        typer.Option(
            help="Write a submission to subtask 2 of ArchEHR-QA 2026 as well (.zip or .json).", metavar="FILE"
        ),
    ] = None,
    by_cutoff: Annotated[
        bool,
        typer.Option(
            "--by-cutoff", help="Score fixed sizes and truncations of the same rankings as well, in a table."
        ),
    ] = False,
) -> Result:
    """Rank the sentences of each example for its query, select some, and score the selection.

    Scores need labels by people in the data. Brackets are 95 % intervals by bootstrap over examples. With
    --out, the same command continues after an interruption.

    Example: evigraph rank bm25 cases.xml --out ranked.jsonl
    """
    from cli.progress import progress
    from evals.rankings.by_cutoff import cutoff_table, cutoffs_as_json, score_by_cutoff
    from evals.rankings.scores import score_rows
    from evals.submissions import check_target, write_ranked
    from ranking.cutoffs import cutoff_text
    from ranking.rank_file import ROW, PartialFile, rank_examples
    from ranking.rankers.load import load_ranker

    given = None if cutoff is None else cutoff_rule(cutoff)
    examples = _examples(ranker, data, reader, key, split)
    if submission is not None:
        check_target(submission, examples)
    loaded = load_ranker(ranker)
    rule = given or loaded.cutoff
    made_by = {"ranker": loaded.identity, "cutoff": cutoff_text(rule)}
    kept: list[RankedRow] = []
    with PartialFile(out, made_by) if out else nullcontext() as file:
        try:
            with progress("examples", len(examples)) as shown:
                rows = rank_examples(loaded, rule, examples, file)
                scores = score_rows(_shown(rows, shown, kept if submission or by_cutoff else None))
            if file is not None:
                file.finish(ROW)
        except KeyboardInterrupt:
            if file is not None:
                print_message(f"saved in {file.partial}; the same command continues")
            raise
    faults = write_ranked(submission, kept, examples) if submission else []
    cutoffs = score_by_cutoff(kept) if by_cutoff and scores.values else []
    for fault in faults:
        line = " ".join(f"{fault.severity}: {fault.line}. {fault.remedy}".split())
        print_message(line, "red")
    if faults:
        print_message("no submission written", "red")
    written = None if faults else submission

    def print_ranked() -> None:
        _print(loaded.identity, rule, scores, out, written)
        if cutoffs:
            print_line()
            print_table(cutoff_table(cutoffs))

    fields = _fields(loaded.identity, rule, split, scores, out, written)
    content = {**fields, "by_cutoff": cutoffs_as_json(cutoffs)} if by_cutoff else fields
    return Result(content, print_ranked, int(bool(faults)))


def cutoff_rule(text: str) -> Cutoff:
    """The rule that `--cutoff` names."""
    from ranking.cutoffs import parse_cutoff

    try:
        return parse_cutoff(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cutoff") from None


def _examples(
    ranker: str,
    data: list[Path],
    reader: ExampleFormat | None,
    keys: list[Path] | None,
    split: Literal["held-out", "all"],
) -> list[Example]:
    from ranking.examples import held_out_examples
    from ranking.rankers.checkpoint import read_split
    from ranking.readers.archehr import ArchehrOptions
    from ranking.readers.load import load_examples

    if keys and reader not in (None, "archehr"):
        raise typer.BadParameter(f"the reader {reader!r} takes no key", param_hint="--key")
    record = read_split(Path(ranker).expanduser()) if split == "held-out" else None
    examples = load_examples(data, ArchehrOptions(keys=tuple(keys)) if keys else reader)
    if record is None:
        return examples
    return held_out_examples(examples, record.share, record.seed, record.groups_sha256)


def _shown(
    rows: Iterable[RankedRow], progress: Progress, kept: list[RankedRow] | None
) -> Iterator[RankedRow]:
    for done, row in enumerate(rows, start=1):
        progress.advance(done)
        if kept is not None:
            kept.append(row)
        yield row


def _fields(
    ranker: str, rule: Cutoff, split: str, scores: RankingScores, out: Path | None, submission: Path | None
) -> dict[str, Any]:
    from evals.pages.tables import interval_object

    return {
        "ranker": ranker,
        "cutoff": rule.model_dump(),
        "split": split,
        "examples": scores.examples,
        "scored": scores.scored,
        "weak": scores.weak,
        "sentences": scores.sentences,
        "selected": scores.selected,
        "cut_sentences": scores.cut_sentences,
        "cut_queries": scores.cut_queries,
        "scores": {name: interval_object(its) for name, its in scores.values.items()},
        "file": str(out) if out else None,
        "submission": str(submission) if submission else None,
    }


def _print(
    ranker: str, rule: Cutoff, scores: RankingScores, out: Path | None, submission: Path | None
) -> None:
    from evals.pages.tables import POINTS
    from ranking.cutoffs import cutoff_text

    print_line(
        f"{ranker}, cut-off {cutoff_text(rule)}: {plural(scores.examples, 'example')},"
        f" {scores.selected:,} of {plural(scores.sentences, 'sentence')} selected"
    )
    if scores.cut_sentences or scores.cut_queries:
        cut = f"{plural(scores.cut_sentences, 'sentence')} and {plural(scores.cut_queries, 'query')}"
        print_line(f"over the ranker's limit of length, the end not read: {cut}", "yellow")
    if scores.weak:
        print_line(f"weak labels are not scored against: {plural(scores.weak, 'example')}", "yellow")
    if scores.values:
        values = [
            (name.replace("_", " "), POINTS.number(its.value), POINTS.bracket(its))
            for name, its in scores.values.items()
        ]
        print_rows((plural(scores.scored, "example"), "", "95 %"), values, right=("",))
    else:
        print_line("no scores: no example is labelled by people")
    for path in (out, submission):
        if path is not None:
            print_line(str(path))
    if out is None and submission is None and not scores.values:
        print_line("nothing saved: --out FILE writes the selection")
