"""`evigraph review assign`, `agreement` and `adjudicate`: several people review the same cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CaseArgument, RunFolderArgument
from cli.terminal import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cases.records import Case
    from runs.record.folder import RunFolder


EssentialOption = Annotated[
    str | None, typer.Option(help="Sentences that are essential, such as 1,4.", metavar="IDS")
]
SupplementaryOption = Annotated[
    str | None, typer.Option(help="Sentences that are supplementary.", metavar="IDS")
]
NotRelevantOption = Annotated[
    str | None, typer.Option(help="Sentences that are not relevant.", metavar="IDS")
]
CommentOption = Annotated[str, typer.Option(help="A comment for other people.", metavar="TEXT")]


def assign(
    run: RunFolderArgument,
    cases: Annotated[
        list[str] | None, typer.Argument(help="Case ids. (default: all that have ended)", metavar="[CASE...]")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Names of reviewers, separated by commas.", metavar="NAMES")
    ] = None,
    each: Annotated[int, typer.Option(min=1, help="Reviewers for each case.", metavar="N")] = 1,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only the cases that wait for a person.")
    ] = False,
) -> Result:
    """Assign cases to reviewers in equal numbers; without `--to`, show the assignments.

    Existing assignments are kept. An assigned case that waits continues once all its reviewers agree, or
    somebody has adjudicated.

    Example: evigraph review assign out/asking --to anna,ben --each 2
    """
    from cli.running.print_reviews import list_queues
    from cli.terminal import plural, print_message
    from runs.record.folder import RunFolder
    from runs.record.reading import Run
    from runs.review.reviewers import assign_cases, names

    folder = RunFolder(run)
    if to is not None:
        for case_id in cases or ():
            folder.require_case(case_id)
        made = assign_cases(Run(run), names(to), each, case_ids=cases or (), only_waiting=waiting)
        print_message(f"{plural(made, 'case')} assigned" if made else "nothing to assign")
    elif cases or waiting or each != 1:
        raise typer.BadParameter("--to NAMES is missing: who reviews?")
    return list_queues(folder)


def agreement(run: RunFolderArgument) -> Result:
    """Show agreement of reviewers on sentence labels: kappa and alpha, with intervals over cases.

    Example: evigraph review agreement out/asking
    """
    from cli.running.print_reviews import print_agreement
    from evals.agreement import reviewer_agreement
    from runs.record.folder import RunFolder
    from runs.review.reviewers import ReviewedRun

    folder = RunFolder(run)
    standings = ReviewedRun(folder.path).standings()
    found = reviewer_agreement(standings)
    missing = sorted({name for standing in standings.values() for name in standing.missing})
    return Result({"run": str(run), **found.as_json()}, lambda: print_agreement(folder, found, missing))


def adjudicate(
    run: RunFolderArgument,
    case: CaseArgument = None,
    by: Annotated[str | None, typer.Option(help="Who decides.", metavar="NAME")] = None,
    essential: EssentialOption = None,
    supplementary: SupplementaryOption = None,
    not_relevant: NotRelevantOption = None,
    comment: CommentOption = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Write the decided cases: a key (.json), or cases (.jsonl).", metavar="FILE"),
    ] = None,
) -> Result:
    """Resolve differences between reviewers, and write the agreed labels as a gold key.

    Without options the differences are listed side by side. With a case and `--by`, name every sentence on
    which reviewers differ; labels on which they agree stay unless you name those sentences too.

    Example: evigraph review adjudicate out/asking --out key.json
    """
    from cli.running.print_reviews import added, adjudicated, list_differences, print_unlabelled
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder
    from runs.review.reviewed_gold import export_adjudicated
    from runs.review.reviewers import ReviewedRun, decide

    folder = RunFolder(run)
    labels = labels_of({"essential": essential, "supplementary": supplementary, "not-relevant": not_relevant})
    if out is not None:
        if case is not None or labels is not None:
            raise typer.BadParameter("--out writes all decided cases; leave out CASE and labels")
        found = export_adjudicated(folder, out)
        record_if_possible(run, "exported", what="decided cases", to=str(out))
        return adjudicated(folder, out, found)
    reviewed = ReviewedRun(folder.path)
    if labels is None and by is None:
        if case is None:
            return list_differences(folder, reviewed.standings())
        folder.require_case(case)
        standing = reviewed.standing(case)
        differences = list_differences(folder, {case: standing})

        def print_case() -> None:
            if not standing.missing:
                print_unlabelled(case_of(folder, case))
            differences.show()

        return replace(differences, show=print_case)
    if case is None or by is None or labels is None:
        raise typer.BadParameter("a decision needs CASE, --by NAME and labels, such as --essential 1,4")
    line = folder.require_case(case)
    made = decide(line, reviewed.standing(case), reviewer=by, labels=labels, comment=comment)
    reviewed.reviews.add(made)
    return added(folder, line, made)


def labels_of(named: Mapping[str, str | None]) -> dict[str, str] | None:
    """Labels by sentence id, as options give them; None where no option names labels.

    Raises:
        BadParameter: A sentence has two.
    """
    if all(ids is None for ids in named.values()):
        return None
    labels: dict[str, str] = {}
    for label, ids in named.items():
        for id_ in ids_of(ids):
            if labels.setdefault(id_, label) != label:
                raise typer.BadParameter(f"sentence {id_!r} is both {labels[id_]} and {label}")
    return labels


def ids_of(given: str | None) -> list[str]:
    """Ids of sentences as an option gives them."""
    return (given or "").replace(",", " ").split()


def case_of(folder: RunFolder, case_id: str) -> Case:
    """The texts of a case.

    Raises:
        RunError: They cannot be read.
    """
    from runs.record.manifest import RunError
    from runs.record.reading import Run

    run = Run(folder.path)
    case = run.case(case_id)
    if case is None or run.texts_fault:
        why = run.texts_fault or "no readable case file has this id"
        raise RunError(f"{folder.path}: the texts of case {case_id!r} cannot be shown: {why}")
    return case
