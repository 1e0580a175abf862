"""Reviews in the terminal: what waits, what was reviewed, what one review changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.terminal import print_json, print_line, print_table
from evals.pages.tables import NO_VALUE, Column, Table, some
from nodes.evidence.disagreement import contested
from runs.folder import Line, RunFolder
from runs.manifest import WAITING, quoted
from runs.reviewed_gold import ReviewedCases
from runs.reviews import Review, Reviews, is_stale


def print_reviews(folder: RunFolder, *, as_json: bool) -> None:
    """The cases that wait for a person, and those that were reviewed, with the last review of each."""
    reviews = Reviews(folder.path)
    latest, labels = reviews.latest(), reviews.latest("labels")
    rows = [
        _review_row(line, latest.get(line["case_id"]), labels.get(line["case_id"]))
        for line in folder.cases()
        if line["status"] == WAITING or line["case_id"] in latest
    ]
    if as_json:
        print_json({"run": str(folder.path), "cases": rows})
        return
    if not rows:
        print_line("nothing waits for a person, and nothing is reviewed")
        return
    shown = [
        [row["case_id"], row["status"], " ".join(row["contested"]) or NO_VALUE, _review_text(row)]
        for row in rows
    ]
    print_table(
        Table([Column(name, "text") for name in ("case", "status", "votes differ on", "review")], shown)
    )
    for number, command in enumerate(_next_commands(folder, rows)):
        print_line(f"{'     ' if number else 'next:'} {command}")


def print_history(folder: RunFolder, case_id: str, *, as_json: bool) -> None:
    """All reviews of a case, oldest first."""
    history = Reviews(folder.path).history(case_id)
    if as_json:
        print_json({"case_id": case_id, "reviews": [one.model_dump(mode="json") for one in history]})
        return
    for one in history:
        print_line(f"{one.reviewed_at} {one.reviewer}: {one.words}")
        if one.comment:
            print_line(f"  {one.comment}")


def print_added(folder: RunFolder, line: Line, made: Review, *, as_json: bool) -> None:
    """A review, and what to type where its case goes on with it."""
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    print_line(f"case {made.case_id}: {made.words}")
    if made.labels is not None:
        _print_confirmed(line, made, made.labels)
    if line["status"] != WAITING:
        return
    if made.labels is None:
        command = f"evigraph review {folder.path} {made.case_id} --by NAME"
        print_line("it still waits, as the review says nothing of its labels")
        print_line(f"next: {command} --confirm", soft_wrap=True)
        print_line(f"      {command} --essential IDS", soft_wrap=True)
    elif folder.manifest.status == "running":
        print_line("it goes on with the run")
    else:
        print_line(f"next: evigraph resume {quoted(folder.path)}")


def print_exported(path: Path, found: ReviewedCases, *, as_json: bool) -> None:
    """How many reviewed cases were written, and which of their reviews are old."""
    if as_json:
        print_json({"file": str(path), "cases": len(found.cases), "stale": list(found.stale)})
        return
    print_line(f"{len(found.cases)} reviewed cases in {path}")
    if found.stale:
        stale = some(found.stale, 10)
        print_line(f"reviewed on an earlier result of the run: {stale}", "yellow")


def _print_confirmed(line: Line, made: Review, labels: Mapping[str, str]) -> None:
    """The sentences that the reviewer did not name: their labels count as much as the others."""
    unnamed: dict[str, list[str]] = {}
    for id_, label in labels.items():
        if id_ not in made.named:
            unnamed.setdefault(label.replace("-", " "), []).append(id_)
    if unnamed:
        groups = "; ".join(f"{label} {' '.join(ids)}" for label, ids in sorted(unnamed.items()))
        why = "not named, so confirmed" if made.named else "confirmed"
        print_line(f"{why} as shown: {groups}", soft_wrap=True)
    divided = contested(line.get("vote_counts") or {}, line.get("usable_votes") or 0)
    open_ones = [id_ for id_ in divided if id_ not in made.named]
    if made.named and open_ones:
        print_line(f"of these, votes differ on {' '.join(open_ones)}", "yellow", soft_wrap=True)


def _review_row(line: Line, review: Review | None, of_labels: Review | None) -> dict[str, Any]:
    counts, votes = line.get("vote_counts") or {}, line.get("usable_votes") or 0
    return {
        "case_id": line["case_id"],
        "status": line["status"],
        "contested": contested(counts, votes),
        "review": review.model_dump(mode="json") if review else None,
        "corrected": review.corrected if review else [],
        "stale": review is not None and is_stale(review, line),
        "goes_on": line["status"] == WAITING and of_labels is not None and not is_stale(of_labels, line),
    }


def _review_text(row: Mapping[str, Any]) -> str:
    if row["review"] is None:
        return "-"
    review = Review.model_validate(row["review"])
    old = ", on an earlier result" if row["stale"] else ""
    return f"{review.reviewer}, {review.reviewed_at[:16]}: {review.words}{old}"


def _next_commands(folder: RunFolder, rows: list[dict[str, Any]]) -> list[str]:
    """A review that says nothing of labels, such as a comment, leaves its case waiting."""
    waiting = [row["case_id"] for row in rows if row["status"] == WAITING and not row["goes_on"]]
    commands = [f"evigraph review {quoted(folder.path)} {quoted(case_id)}" for case_id in waiting[:1]]
    if any(row["goes_on"] for row in rows):
        commands.append(f"evigraph resume {quoted(folder.path)}")
    return commands or [f"evigraph review {quoted(folder.path)} --export gold.jsonl"]
