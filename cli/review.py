"""`evigraph review`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import CaseArgument, JsonOption, RunFolderArgument

if TYPE_CHECKING:
    from runs.folder import RunFolder


def review(
    run: RunFolderArgument,
    case: CaseArgument = None,
    by: Annotated[str | None, typer.Option(help="Name of the reviewer.", metavar="NAME")] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="All labels are right, and so is the answer if there is one.")
    ] = False,
    essential: Annotated[
        str | None, typer.Option(help="Sentences that are essential, such as 1,4.", metavar="IDS")
    ] = None,
    supplementary: Annotated[
        str | None, typer.Option(help="Sentences that are supplementary.", metavar="IDS")
    ] = None,
    not_relevant: Annotated[
        str | None, typer.Option(help="Sentences that are not relevant.", metavar="IDS")
    ] = None,
    answer: Annotated[
        Path | None, typer.Option(help="Text file with the right answer.", metavar="FILE")
    ] = None,
    comment: Annotated[str, typer.Option(help="A comment for other people.", metavar="TEXT")] = "",
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the reviewed cases as gold: a key (.json), or cases with texts (.jsonl).",
            metavar="FILE",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Confirm or correct labels and answers; list what waits for a person; export reviews as gold.

    Sentences that no option names are confirmed as they are, and listed. Reviews are stored in the run with
    name and time; the last one counts. A case that waited continues while the run is in progress, or with
    `evigraph resume`.

    Example: evigraph review out/2026-11-21T10-15-tamu-ab12 101 --by "R. Chen" --essential 1,4
    """
    from cli.print_reviews import print_added, print_exported, print_reviews
    from runs.audit import record_if_possible
    from runs.folder import RunFolder
    from runs.reviewed_gold import export_reviewed
    from runs.reviews import Reviews, make_review

    folder = RunFolder(run)
    named = {"essential": essential, "supplementary": supplementary, "not-relevant": not_relevant}
    labels = _labels(named)
    says = confirm or labels is not None or answer is not None or bool(comment)
    if case is None:
        if by is not None or says:
            raise typer.BadParameter("name the case: evigraph review RUN CASE --by NAME ...")
        if export is None:
            print_reviews(folder, as_json=as_json)
        else:
            print_exported(export, export_reviewed(folder, export), as_json=as_json)
            record_if_possible(run, "exported", what="reviewed cases", to=str(export))
        return
    if export is not None:
        raise typer.BadParameter("--export writes all reviewed cases; leave out CASE")
    line = folder.require_case(case)
    reviews = Reviews(run)
    if not says and by is not None:
        raise typer.BadParameter(
            f"--by alone says nothing of case {case!r}: add --confirm where its labels are right, or name"
            " sentences: --essential IDS, --supplementary IDS, --not-relevant IDS (others: --answer FILE,"
            " --comment TEXT)"
        )
    if not says:
        _show(folder, case, as_json=as_json)
        return
    if by is None:
        raise typer.BadParameter("--by NAME is missing: who reviews?")
    if confirm and labels is None and line["labels"]:
        labels = {}
    text = line.get("answer") if confirm else None
    made = make_review(
        line,
        reviewer=by,
        labels=labels,
        answer=_read(answer) if answer is not None else text,
        comment=comment,
        earlier=reviews.latest("labels").get(case),
    )
    reviews.add(made)
    print_added(folder, line, made, as_json=as_json)


def _labels(named: dict[str, str | None]) -> dict[str, str] | None:
    """None where no option names labels.

    Raises:
        BadParameter: A sentence has two.
    """
    if all(ids is None for ids in named.values()):
        return None
    labels: dict[str, str] = {}
    for label, ids in named.items():
        for id_ in (ids or "").replace(",", " ").split():
            if labels.setdefault(id_, label) != label:
                raise typer.BadParameter(f"sentence {id_!r} is both {labels[id_]} and {label}")
    return labels


def _read(path: Path) -> str:
    from cases.errors import InputError
    from cases.files import opened
    from runs.reviews import MAX_ANSWER

    with opened(path) as file:
        # Four bytes a character at most; what is longer is refused by its length.
        content = file.read(4 * MAX_ANSWER + 4)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"byte {error.start + 1} is not UTF-8", "Save the file as UTF-8") from error


def _show(folder: RunFolder, case_id: str, *, as_json: bool) -> None:
    from cli.print_reviews import print_history
    from cli.show_case import show_case

    if not as_json:
        show_case(folder, case_id, with_calls=False)
    print_history(folder, case_id, as_json=as_json)
