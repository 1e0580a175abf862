"""Reviews in the terminal: waiting cases, reviewed cases, changes of one review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases.texts import quoted
from cli.looking.show_case import review_command, show_case
from cli.terminal import Result, duration, plural, print_line, print_rows, print_table
from evals.pages.tables import NO_VALUE, some
from nodes.evidence.disagreement import contested
from runs.record.folder import Line, RunFolder
from runs.record.manifest import WAITING
from runs.review.reviewers import Queue, ReviewedRun, Standing, queue_of, queues
from runs.review.reviews import DEFINITIONS, Review, Reviews, is_stale

if TYPE_CHECKING:
    from cases.records import Case
    from evals.agreement import ReviewerAgreement
    from runs.review.reviewed_gold import AdjudicatedCases, ReviewedCases


def list_reviews(folder: RunFolder) -> Result:
    """The cases that wait for a person, and those that were reviewed, with the last review of each."""
    reviewed = ReviewedRun(folder.path)
    latest, counting, standings = reviewed.reviews.latest(), reviewed.counting(), reviewed.standings()
    hidden = {case_id: one for case_id, one in standings.items() if one.missing}
    rows = [
        _review_row(
            line, latest.get(line["case_id"]), counting.get(line["case_id"]), line["case_id"] in hidden
        )
        for line in folder.cases()
        if line["status"] == WAITING or line["case_id"] in latest
    ]

    def print_reviews() -> None:
        if not rows:
            print_line("nothing waits for a person, and nothing is reviewed")
            return
        shown = [
            (
                row["case_id"],
                row["status"],
                " ".join(row["contested"]) or NO_VALUE,
                _review_text(row, hidden.get(row["case_id"])),
            )
            for row in rows
        ]
        print_rows(("case", "status", "votes differ on", "review"), shown)
        undecided = [case_id for case_id, one in standings.items() if one.undecided and not one.missing]
        if undecided:
            command = f"evigraph review adjudicate {quoted(folder.path)}"
            print_line(f"reviewers differ on {plural(len(undecided), 'case')}: {command}", "yellow")
        for number, command in enumerate(_next_commands(folder, rows, standings)):
            print_line(f"{'     ' if number else 'next:'} {command}")

    return Result({"run": str(folder.path), "cases": rows}, print_reviews)


def show_reviewed(folder: RunFolder, case_id: str) -> Result:
    """A case with all of its reviews, oldest first."""
    history = Reviews(folder.path).history(case_id)

    def print_reviewed() -> None:
        show_case(folder, case_id, with_calls=False)
        for one in history:
            print_line(f"{one.reviewed_at} {one.reviewer}: {one.words}")
            if one.comment:
                print_line(f"  {one.comment}", wrap=True)

    reviews = [one.model_dump(mode="json") for one in history]
    return Result({"case_id": case_id, "reviews": reviews}, print_reviewed)


def added(folder: RunFolder, line: Line, made: Review) -> Result:
    """A review, with the command that continues its case."""
    return Result(made.model_dump(mode="json"), partial(_print_added, folder, line, made))


def _print_added(folder: RunFolder, line: Line, made: Review) -> None:
    print_line(f"case {made.case_id}: {made.words}")
    if made.labels is not None and not made.independent:
        _print_confirmed(line, made, made.labels)
    if line["status"] != WAITING:
        return
    standing = ReviewedRun(folder.path).standing(made.case_id)
    if standing.missing:
        print_line(f"it still waits for: {', '.join(standing.missing)}")
    elif standing.assigned and standing.undecided:
        print_line(f"it still waits, as reviewers differ on {' '.join(standing.differing)}")
        print_line(f"next: evigraph review adjudicate {quoted(folder.path)} {quoted(made.case_id)}")
    elif made.labels is None:
        command = f"evigraph review {quoted(folder.path)} {quoted(made.case_id)} --by NAME"
        print_line("it still waits, as the review says nothing of its labels")
        print_line(f"next: {command} --confirm")
        print_line(f"      {command} --essential IDS")
    elif folder.manifest.status == "running":
        print_line("it continues with the run")
    else:
        print_line(f"next: evigraph resume {quoted(folder.path)}")


def exported(path: Path, found: ReviewedCases) -> Result:
    """How many reviewed cases were written, and which of their reviews are old."""

    def print_exported() -> None:
        print_line(f"{len(found.cases)} reviewed cases in {path}")
        if found.stale:
            stale = some(found.stale, 10)
            print_line(f"reviewed on an earlier result of the run: {stale}", "yellow")

    content = {"file": str(path), "cases": len(found.cases), "stale": list(found.stale)}
    return Result(content, print_exported)


def list_queues(folder: RunFolder) -> Result:
    """How much everybody has reviewed, and is still to review."""
    ids = [line["case_id"] for line in folder.cases()]
    found = queues(ids, ReviewedRun(folder.path).standings())
    content = {"run": str(folder.path), "reviewers": [_queue(one) for one in found]}
    return Result(content, partial(_print_queues, folder, found))


def _print_queues(folder: RunFolder, found: Sequence[Queue]) -> None:
    if not found:
        print_line("nothing is assigned, and nothing is reviewed")
        return
    numbers = ("cases", "reviewed", "remaining", "time")
    rows = [
        (
            one.reviewer,
            *(f"{count:,}" for count in _counts(one)),
            duration(one.seconds) if one.seconds else NO_VALUE,
        )
        for one in found
    ]
    print_rows(("reviewer", *numbers), rows, right=numbers)
    remaining = next((one for one in found if one.open), None)
    run = quoted(folder.path)
    if remaining is not None:
        print_line(f"next: evigraph view {run} --blind --by {quoted(remaining.reviewer)}")
    elif len(found) > 1:
        print_line(f"next: evigraph review agreement {run}")


def show_queue(folder: RunFolder, reviewer: str, *, blind: bool) -> Result:
    """Cases that one person still has to review."""
    ids = [line["case_id"] for line in folder.cases()]
    standings = ReviewedRun(folder.path).standings()
    found = queue_of(reviewer, ids, standings)

    def print_queue() -> None:
        cases, done, remaining = _counts(found)
        print_line(f"{reviewer}: {done:,} of {plural(cases, 'case')} reviewed, {remaining:,} remaining")
        if remaining:
            command = review_command(folder, found.open[0], standings.get(found.open[0]), reviewer)
            flag = " --blind" if blind and " --blind" not in command else ""
            print_line(f"remaining: {some(found.open, 20)}")
            print_line(f"next: {command}{flag}")

    return Result({"run": str(folder.path), **_queue(found)}, print_queue)


def _counts(queue: Queue) -> tuple[int, int, int]:
    return len(queue.case_ids), len(queue.done), len(queue.open)


def _queue(queue: Queue) -> dict[str, Any]:
    seconds = round(queue.seconds, 1)
    return {"reviewer": queue.reviewer, "done": [*queue.done], "remaining": queue.open, "seconds": seconds}


def show_unlabelled(folder: RunFolder, case: Case, reviewer: str | None) -> Result:
    """A case as shown to a blind reviewer, and the command that stores labels."""
    sentences = {one.id: one.text for one in case.sentences}
    content = {"case_id": case.id, "question": case.question, "sentences": sentences}

    def print_case() -> None:
        print_unlabelled(case)
        for label, meaning in DEFINITIONS.items():
            print_line(f"{label.replace('-', ' ')}: {meaning}", wrap=True)
        by = quoted(reviewer) if reviewer is not None else "NAME"
        command = f"evigraph review {quoted(folder.path)} {quoted(case.id)} --blind --by {by}"
        print_line(f"next: {command} --essential IDS --supplementary IDS")

    return Result(content, print_case)


def print_unlabelled(case: Case) -> None:
    """Question and note of a case."""
    for name, text in (("question", case.question), ("patient", case.narrative)):
        if text.strip():
            print_line(f"{name}: {' '.join(text.split())}", wrap=True)
    for one in case.sentences:
        print_line(f"{one.id:>4}  {' '.join(one.text.split())}", wrap=True)


def print_agreement(folder: RunFolder, found: ReviewerAgreement, missing: Sequence[str]) -> None:
    """Print how far reviewers agree; `missing` names those who are still to label a case."""
    if not found.cases:
        run = quoted(folder.path)
        print_line("no case is labelled by two people yet")
        if missing:
            print_line(f"next: evigraph view {run} --blind --by {quoted(missing[0])}")
        else:
            print_line(f"next: evigraph review assign {run} --to NAME,NAME --each 2")
        return
    print_table(found.table)
    print_line(
        f"{plural(found.cases, 'case')} labelled by two or more; alpha: Krippendorff's; intervals by"
        " bootstrap over cases; - where all labels are alike",
        wrap=True,
    )
    if found.left_out:
        sentences = plural(found.left_out, "sentence")
        print_line(f"Fleiss' kappa leaves out {sentences} with other numbers of reviewers")
    if found.caution:
        print_line(found.caution, "yellow", wrap=True)
    run = quoted(folder.path)
    if found.differing:
        print_line(f"reviewers differ on {plural(len(found.differing), 'case')}")
        print_line(f"next: evigraph review adjudicate {run}")
    else:
        print_line(f"next: evigraph review adjudicate {run} --out key.json")


def list_differences(folder: RunFolder, standings: Mapping[str, Standing]) -> Result:
    """The sentences on which reviewers differ, side by side, with the decision where there is one."""
    differing = {case_id: one for case_id, one in standings.items() if one.differing and not one.missing}
    content = {"run": str(folder.path), "cases": [_difference(*pair) for pair in differing.items()]}
    return Result(content, partial(_print_differences, folder, standings, differing))


def _print_differences(
    folder: RunFolder, standings: Mapping[str, Standing], differing: Mapping[str, Standing]
) -> None:
    run = quoted(folder.path)
    open_ones = {
        case_id: one.missing for case_id, one in standings.items() if one.missing and one.by_reviewer
    }
    for case_id, missing in open_ones.items():
        be = "is" if len(missing) == 1 else "are"
        print_line(f"case {case_id}: {', '.join(missing)} {be} still to label it")
    if not differing:
        if not open_ones:
            print_line("reviewers differ on nothing")
            print_line(f"next: evigraph review adjudicate {run} --out key.json")
        return
    for case_id, one in differing.items():
        decision = one.adjudication
        labels = {name: review.labels or {} for name, review in one.by_reviewer.items()}
        if decision is not None:
            labels[f"decided by {decision.reviewer}"] = decision.labels or {}
        rows = [
            [id_, *(each.get(id_, NO_VALUE).replace("-", " ") for each in labels.values())]
            for id_ in one.differing
        ]
        print_rows(("sentence", *labels), rows, title=f"case {case_id}")
    undecided = [case_id for case_id, one in differing.items() if one.undecided]
    print_line(f"{len(undecided):,} of {plural(len(differing), 'case')} to be decided")
    if undecided:
        print_line(
            f"next: evigraph review adjudicate {run} {quoted(undecided[0])} --by NAME --essential IDS"
            " --not-relevant IDS"
        )
    else:
        print_line(f"next: evigraph review adjudicate {run} --out key.json")


def _difference(case_id: str, one: Standing) -> dict[str, Any]:
    decision = one.adjudication
    return {
        "case_id": case_id,
        "differing": one.differing,
        "labels": {name: review.labels for name, review in one.by_reviewer.items()},
        "decision": None if decision is None else decision.model_dump(mode="json"),
    }


def adjudicated(folder: RunFolder, path: Path, found: AdjudicatedCases) -> Result:
    """How the labels of a gold key came about."""

    def print_adjudicated() -> None:
        print_line(
            f"{plural(len(found.cases), 'case')} in {path}: {found.agreed:,} labelled alike by all reviewers,"
            f" {found.adjudicated:,} adjudicated, {found.alone:,} labelled by one person"
        )
        if found.missing:
            print_line(f"left out, as somebody is still to label them: {some(found.missing, 10)}", "yellow")
        print_line(f"next: evigraph score {quoted(folder.path)} --key {quoted(path)}")

    content = {
        "file": str(path),
        "cases": len(found.cases),
        "agreed": found.agreed,
        "adjudicated": found.adjudicated,
        "alone": found.alone,
        "missing": list(found.missing),
    }
    return Result(content, print_adjudicated)


def _print_confirmed(line: Line, made: Review, labels: Mapping[str, str]) -> None:
    """The sentences that the reviewer did not name: their labels count as much as the others."""
    unnamed: dict[str, list[str]] = {}
    for id_, label in labels.items():
        if id_ not in made.named:
            unnamed.setdefault(label.replace("-", " "), []).append(id_)
    if unnamed:
        groups = "; ".join(f"{label} {' '.join(ids)}" for label, ids in sorted(unnamed.items()))
        why = "not named, so confirmed" if made.named else "confirmed"
        print_line(f"{why} as shown: {groups}")
    divided = contested(line.get("vote_counts") or {}, line.get("usable_votes") or 0)
    open_ones = [id_ for id_ in divided if id_ not in made.named]
    if made.named and open_ones:
        print_line(f"of these, votes differ on {' '.join(open_ones)}", "yellow")


def _review_row(line: Line, review: Review | None, of_labels: Review | None, hidden: bool) -> dict[str, Any]:
    counts, votes = line.get("vote_counts") or {}, line.get("usable_votes") or 0
    if hidden:
        counts, review = {}, None
    return {
        "case_id": line["case_id"],
        "status": line["status"],
        "contested": contested(counts, votes),
        "review": review.model_dump(mode="json") if review else None,
        "corrected": review.corrected if review else [],
        "stale": review is not None and is_stale(review, line),
        "goes_on": line["status"] == WAITING and of_labels is not None and not is_stale(of_labels, line),
    }


def _review_text(row: Mapping[str, Any], hidden: Standing | None) -> str:
    if hidden is not None:
        return f"labelled by {len(hidden.assigned) - len(hidden.missing)} of {len(hidden.assigned)}"
    if row["review"] is None:
        return "-"
    review = Review.model_validate(row["review"])
    old = ", on an earlier result" if row["stale"] else ""
    return f"{review.reviewer}, {review.reviewed_at[:16]}: {review.words}{old}"


def _next_commands(
    folder: RunFolder, rows: list[dict[str, Any]], standings: Mapping[str, Standing]
) -> list[str]:
    """A review that says nothing of labels, such as a comment, leaves its case waiting."""
    waiting = [row["case_id"] for row in rows if row["status"] == WAITING and not row["goes_on"]]
    commands = [review_command(folder, case_id, standings.get(case_id)) for case_id in waiting[:1]]
    if any(row["goes_on"] for row in rows):
        commands.append(f"evigraph resume {quoted(folder.path)}")
    return commands or [f"evigraph review {quoted(folder.path)} --export gold.jsonl"]
