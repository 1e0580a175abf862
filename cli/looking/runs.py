"""`evigraph runs`: what there is, what people wrote about it, and runs in object storage."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cases.texts import quoted
from cli.flags import DataFlags
from cli.options import RunFolderArgument
from cli.terminal import Result, duration, plural, print_line, print_rows, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

runs = typer.Typer(invoke_without_command=True, help="List runs; tag, note, push and pull them.")

_TAG = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
_MAX_NOTE = 2_000


@runs.callback()
def list_(
    context: typer.Context,
    root: Annotated[Path, typer.Option("--root", help="Folder that holds the runs.")] = Path("out"),
    rows: Annotated[int, typer.Option(min=1, help="Most runs to list.")] = 20,
) -> Result | None:
    """List the runs below a folder, the last written first. `last` names the first one in every command.

    The score is the one on the page of runs, on the scale of `evigraph score`: strict micro F1 of evidence
    against the run's key, accuracy of verdicts, or BioASQ's measure of the first scored part.

    Example: evigraph runs tag last baseline
    """
    if context.invoked_subcommand is not None:
        return None
    from runs.record.found import own_runs
    from storage.errors import InputError

    if not root.is_dir():
        raise InputError(root, "no such folder", "Runs are made by: evigraph run, evigraph ask")
    found = own_runs(root)
    shown, more = list(_described(found[:rows])), max(0, len(found) - rows)
    return Result({"root": str(root), "runs": shown, "more": more}, partial(_print, root, shown, more))


@runs.command("tag")
def tag(
    run: RunFolderArgument,
    names: Annotated[list[str], typer.Argument(help="Tags, each a word.", metavar="TAG...")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the tags away.")] = False,
) -> None:
    """Tag a run; every command then accepts the tag as its name.

    Example: evigraph runs tag last baseline
    """
    from runs.record.found import LAST, read_remarks, write_remarks

    for name in names:
        if not name or set(name) - set(_TAG) or name.startswith("-") or name == LAST or name in (".", ".."):
            raise typer.BadParameter(
                f"{name!r}: a tag has letters, digits, '.', '_' and '-'", param_hint="TAG"
            )
    before = read_remarks(run)
    kept = [name for name in before.tags if name not in names]
    tags = tuple(kept if remove else [*kept, *dict.fromkeys(names)])
    if tags == before.tags:
        print_line(f"nothing to do: {run} has {_named(tags)}")
        return
    write_remarks(run, before.model_copy(update={"tags": tags}))
    print_line(f"{run} has {_named(tags)}")


@runs.command("note")
def note(
    run: RunFolderArgument,
    text: Annotated[str | None, typer.Argument(help="The note; '' removes it.", metavar="[TEXT]")] = None,
) -> None:
    """Write a note about a run, or show it.

    Example: evigraph runs note last "with the prompts of 3 May"
    """
    from runs.record.found import read_remarks, write_remarks

    before = read_remarks(run)
    if text is None:
        print_line(before.note or f"{run} has no note")
        return
    if len(text) > _MAX_NOTE:
        raise typer.BadParameter(f"{len(text):,} characters; at most {_MAX_NOTE:,}", param_hint="TEXT")
    if text == before.note:
        print_line(f"nothing to do: {run} has this note")
        return
    write_remarks(run, before.model_copy(update={"note": text}))
    print_line(f"{run}: {text or 'has no note now'}")


UrlArgument = Annotated[
    str, typer.Argument(help="s3://, gs://, abfs:// or file:///, with a prefix for each run.", metavar="URL")
]


@runs.command("push")
def push(run: RunFolderArgument, url: UrlArgument, *, data: DataFlags) -> None:
    """Upload a run to object storage, with its texts.

    Existing objects are not sent again, so repeating the command completes an interrupted push and updates a
    continued run. The run is available once all of its files are. Locks and the index stay. A run that is
    being written, or another run at this URL, is rejected. Credentials come from the environment or the
    provider's files.

    Example: evigraph runs push last s3://bucket/night/0
    """
    from cli.progress import Steps, progress
    from runs.move.pushed import push as push_run

    with progress() as shown:
        made = push_run(run, url, Steps(shown).show)
    files = f"{plural(made.files, 'file')}, {made.size:,} bytes"
    if not made.sent:
        print_line(f"{run} is at {url} already: {files}")
    else:
        sent = f"sent now: {made.sent:,}, {made.sent_size:,} bytes"
        print_line(f"{run} is now at {url}: {files} ({sent})")
    print_line(f"next: evigraph runs pull {quoted(url)} --out FOLDER")


@runs.command("pull")
def pull(
    url: UrlArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The new folder.", metavar="FOLDER")],
    *,
    data: DataFlags,
) -> None:
    """Download a run from object storage.

    Each file is compared with the pushed SHA-256. The folder appears once all files are there, or not at all.

    Example: evigraph runs pull s3://bucket/night/0 --out out/night/0
    """
    from cli.progress import Steps, progress
    from runs.move.pushed import pull as pull_run

    with progress() as shown:
        folder, listing = pull_run(url, out, Steps(shown).show)
    size = sum(one.size for one in listing.files.values())
    files = f"{plural(len(listing.files), 'file')}, {size:,} bytes, pushed at {listing.at}"
    print_line(f"{url} is now in {out}: {files}")
    print_line(f"next: evigraph show {quoted(folder.path)}")


def _named(tags: tuple[str, ...]) -> str:
    return f"the {'tag' if len(tags) == 1 else 'tags'} {', '.join(tags)}" if tags else "no tag"


def _described(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """A row for each run, the same as in the page of runs; one that cannot be read has its fault."""
    from dataclasses import asdict, replace

    from graph.system import UnknownSystem
    from runs.execute.reply_quality import ReplyQuality
    from runs.record.folder import RunFolder
    from runs.record.found import read_remarks
    from runs.record.manifest import RunError
    from runs.record.purged import purged_of
    from runs.record.reading import open as open_run
    from viewer.opened_run import answers_of
    from viewer.pages.runs import listed

    for path in paths:
        try:
            with open_run(path) as run:
                quality = ReplyQuality(run.manifest.retries)
                for one in run.summaries():
                    quality.add(one.flags, one.degraded, one.corrected, one.incomplete)
                found = listed(path.name, path, run.manifest, run.totals(), answers_of(path))
                answers = [
                    {
                        "name": one.headline_title,
                        "value": one.headline_value,
                        "questions": len(one.case_ids),
                    }
                    for one in found.answers
                ]
                row = asdict(replace(found, answers=())) | {
                    "answers": answers,
                    "shown_score": found.shown_score,
                }
                row["status"] = RunFolder(path).status
                row |= quality.as_json() | {"shown_replies": quality.rows()}
            remarks = read_remarks(path)
            purged = purged_of(path)
            also = {"tags": list(remarks.tags), "note": remarks.note, "purged": purged.at if purged else None}
            yield row | also
        except (RunError, UnknownSystem) as error:
            yield {"path": str(path), "fault": str(error)}


def _print(root: Path, runs: list[dict[str, Any]], more: int) -> None:
    if not runs:
        print_line(f"{root}: no run here or below")
        return
    shown: list[Sequence[Text | str]] = []
    for row in runs:
        if row["fault"]:
            shown.append((row["path"], safe("unreadable", "red"), "", "", "", "", row["fault"]))
            continue
        failed = row["failed"]
        cases = f"{row['done']:,}/{row['total']:,}" + (f", {failed:,} failed" if failed else "")
        seconds = row["seconds"]
        remarks = ["purged"] * (row["purged"] is not None) + [f"[{tag}]" for tag in row["tags"]]
        remarks += [row["note"]] if row["note"] else []
        remarks += [f"{name}: {text};" for name, text in row["shown_replies"].items()]
        shown.append(
            (
                row["path"],
                safe(row["status"], "" if row["status"] == "finished" and not failed else "yellow"),
                cases,
                row["shown_score"],
                f"{row['tokens']:,}",
                "-" if seconds is None else duration(seconds),
                " ".join(remarks),
            )
        )
    numbers = ("cases", "score", "tokens", "time")
    print_rows(("run", "status", *numbers, "remarks"), shown, right=numbers)
    if more:
        print_line(f"... and {more:,} more: --rows {len(runs) + more}")
    print_line("next: evigraph show last")
