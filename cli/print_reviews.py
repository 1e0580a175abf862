"""Reviews in the terminal: what waits, what was reviewed, what one review changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.terminal import print_json, print_line, print_table
from evals.pages.tables import NO_VALUE, Column, Table, some
from nodes.evidence.disagreement import contested
from runs.folder import Line, RunFolder
from runs.manifest import WAITING
from runs.reviewed_gold import ReviewedCases
from runs.reviews import Review, Reviews, is_stale


def print_reviews(folder: RunFolder, *, as_json: bool) -> None:
    """The cases that wait for a person, and those that were reviewed, with the last review of each."""
    latest = Reviews(folder.path).latest()
    rows = [
        _review_row(line, latest.get(line["case_id"]))
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
    print_line(f"next: {_next_command(folder, rows)}")


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
    if line["status"] != WAITING:
        return
    if made.labels is None:
        print_line("it still waits: --confirm its labels, or name --essential sentences")
    elif folder.manifest.status == "running":
        print_line("it goes on with the run")
    else:
        print_line(f"next: evigraph resume {folder.path}")


def print_exported(path: Path, found: ReviewedCases, *, as_json: bool) -> None:
    """How many reviewed cases were written, and which of their reviews are old."""
    if as_json:
        print_json({"file": str(path), "cases": len(found.cases), "stale": list(found.stale)})
        return
    print_line(f"{len(found.cases)} reviewed cases in {path}")
    if found.stale:
        stale = some(found.stale, 10)
        print_line(f"reviewed on an earlier result of the run: {stale}", "yellow")


def _review_row(line: Line, review: Review | None) -> dict[str, Any]:
    counts, votes = line.get("vote_counts") or {}, line.get("usable_votes") or 0
    return {
        "case_id": line["case_id"],
        "status": line["status"],
        "contested": contested(counts, votes),
        "review": review.model_dump(mode="json") if review else None,
        "corrected": review.corrected if review else [],
        "stale": review is not None and is_stale(review, line),
    }


def _review_text(row: Mapping[str, Any]) -> str:
    if row["review"] is None:
        return "-"
    review = Review.model_validate(row["review"])
    old = ", on an earlier result" if row["stale"] else ""
    return f"{review.reviewer}, {review.reviewed_at[:16]}: {review.words}{old}"


def _next_command(folder: RunFolder, rows: list[dict[str, Any]]) -> str:
    open_ones = [row for row in rows if row["status"] == WAITING]
    unseen = [row for row in open_ones if row["review"] is None or row["stale"]]
    if unseen:
        return f"evigraph review {folder.path} {unseen[0]['case_id']}"
    if open_ones:
        return f"evigraph resume {folder.path}"
    return f"evigraph review {folder.path} --export gold.jsonl"
