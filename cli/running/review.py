"""`evigraph review`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CaseArgument, RunFolderArgument
from cli.running.reviewers import (
    CommentOption,
    EssentialOption,
    NotRelevantOption,
    SupplementaryOption,
    adjudicate,
    agreement,
    assign,
    case_of,
    ids_of,
    labels_of,
)
from cli.terminal import Result

if TYPE_CHECKING:
    from runs.record.folder import Line, RunFolder
    from runs.review.reviewers import Standing
    from runs.review.reviews import Review

review = typer.Typer(
    help="Confirm or correct results: review RUN [CASE]; or assign, compare, adjudicate them."
)
for _command in (assign, agreement, adjudicate):
    review.command()(_command)


@review.command("case")
def review_case(
    run: RunFolderArgument,
    case: CaseArgument = None,
    by: Annotated[str | None, typer.Option(help="Name of the reviewer.", metavar="NAME")] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="All labels are right, and so is the answer if there is one.")
    ] = False,
    essential: EssentialOption = None,
    supplementary: SupplementaryOption = None,
    not_relevant: NotRelevantOption = None,
    answer: Annotated[
        Path | None, typer.Option(help="Text file with the right answer.", metavar="FILE")
    ] = None,
    comment: CommentOption = "",
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the reviewed cases as gold: a key (.json), or cases with texts (.jsonl).",
            metavar="FILE",
        ),
    ] = None,
    blind: Annotated[
        bool,
        typer.Option(
            "--blind", help="Label without seeing any label; sentences that are not named are not relevant."
        ),
    ] = False,
    unsure: Annotated[
        str | None, typer.Option(help="Sentences whose label you are not sure of.", metavar="IDS")
    ] = None,
) -> Result:
    """Confirm or correct labels and answers; list waiting cases; export reviews as gold.

    Sentences that no option names are confirmed as they are, and listed. Reviews are stored in the run with
    name and time; the last one counts. A case that waited continues while the run is in progress, or with
    `evigraph resume`. `case` may be left out. `--by NAME` without a case shows what NAME is still to review.

    Example: evigraph review case out/2026-11-21T10-15-tamu-ab12 101 --by "R. Chen" --essential 1,4
    """
    from cli.running.print_reviews import added, exported, list_reviews, show_queue
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder
    from runs.review.reviewed_gold import export_reviewed
    from runs.review.reviewers import ReviewedRun
    from runs.review.reviews import make_review

    folder = RunFolder(run)
    named = {"essential": essential, "supplementary": supplementary, "not-relevant": not_relevant}
    labels = labels_of(named)
    says = confirm or labels is not None or answer is not None or bool(comment)
    if case is None:
        if says or (blind and by is None):
            raise typer.BadParameter("name the case: evigraph review RUN CASE --by NAME ...")
        if by is not None:
            return show_queue(folder, by, blind=blind)
        if export is None:
            return list_reviews(folder)
        found = export_reviewed(folder, export)
        record_if_possible(run, "exported", what="reviewed cases", to=str(export))
        return exported(export, found)
    if export is not None:
        raise typer.BadParameter("--export writes all reviewed cases; leave out CASE")
    line = folder.require_case(case)
    reviewed = ReviewedRun(run)
    standing = reviewed.standing(case)
    _demand_visible(folder, case, standing, blind=blind)
    if not says:
        if by is not None and not blind:
            raise typer.BadParameter(_what_to_say(case))
        return _shown(folder, case, by, blind=blind)
    if by is None:
        raise typer.BadParameter("--by NAME is missing: who reviews?")
    if blind:
        if confirm or answer is not None:
            raise typer.BadParameter("--blind shows no labels and no answer: none can be confirmed")
        made = _blind(folder, line, by, labels, comment, ids_of(unsure))
    else:
        if confirm and labels is None and line["labels"]:
            labels = {}
        text = line.get("answer") if confirm else None
        made = make_review(
            line,
            reviewer=by,
            labels=labels,
            answer=_read(answer) if answer is not None else text,
            comment=comment,
            earlier=standing.last_labels,
            unsure=ids_of(unsure),
        )
    reviewed.reviews.add(made)
    return added(folder, line, made)


def _demand_visible(folder: RunFolder, case_id: str, standing: Standing, *, blind: bool) -> None:
    """Require that the labels of a case may be shown, or are not.

    Raises:
        RunError: It is assigned, and not all have labelled it.
    """
    from cli.looking.show_case import review_command
    from runs.record.manifest import RunError

    if standing.missing and not blind:
        raise RunError(
            f"case {case_id!r} is assigned to {', '.join(standing.assigned)}, and its labels are hidden until"
            f" all have labelled it: {review_command(folder, case_id, standing)}"
        )


def _what_to_say(case_id: str) -> str:
    return (
        f"--by alone says nothing of case {case_id!r}: add --confirm where its labels are right, or name"
        " sentences: --essential IDS, --supplementary IDS, --not-relevant IDS (others: --answer FILE,"
        " --comment TEXT)"
    )


def _blind(
    folder: RunFolder,
    line: Line,
    reviewer: str,
    labels: dict[str, str] | None,
    comment: str,
    unsure: list[str],
) -> Review:
    from runs.review.reviews import make_independent_review

    if labels is None:
        raise typer.BadParameter("--blind needs labels: --essential IDS, --supplementary IDS or both")
    ids = case_of(folder, line["case_id"]).sentence_ids
    return make_independent_review(
        line,
        ids,
        reviewer=reviewer,
        labels={**dict.fromkeys(ids, "not-relevant"), **labels},
        comment=comment,
        unsure=unsure,
    )


def _read(path: Path) -> str:
    from runs.review.reviews import MAX_ANSWER
    from storage.errors import InputError
    from storage.files import opened

    with opened(path) as file:
        # Four bytes a character at most; longer content is rejected by its length.
        content = file.read(4 * MAX_ANSWER + 4)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"byte {error.start + 1} is not UTF-8", "Save the file as UTF-8") from error


def _shown(folder: RunFolder, case_id: str, reviewer: str | None, *, blind: bool) -> Result:
    from cli.running.print_reviews import show_reviewed, show_unlabelled
    from runs.record.audit import record_if_possible

    record_if_possible(folder.path, "opened", case=case_id, command="review")
    if blind:
        return show_unlabelled(folder, case_of(folder, case_id), reviewer)
    return show_reviewed(folder, case_id)
