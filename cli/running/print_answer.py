"""The answer of `evigraph ask`: every sentence with its sources and its mark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases.texts import quoted
from cli.terminal import Result, plural, print_line, print_rows, safe

if TYPE_CHECKING:
    from cases.records import Case
    from runs.record.folder import Line, RunFolder

CASE = "note"
FILE = "case.jsonl"
_ROWS = 20
_COLOURS = {"supported": "green", "contradicted": "red", "not_stated": "red"}


def asked_result(run: Path) -> Result | None:
    """The answer in a run of `evigraph ask`; None if the run is another one, or the case has not ended."""
    from runs.record.folder import RunFolder
    from runs.record.manifest import recorded_cases

    folder = RunFolder(run)
    inputs = [Path(path).resolve() for path in folder.manifest.inputs.paths]
    line = folder.case(CASE)
    if line is None or inputs != [(run.parent / FILE).resolve()]:
        return None
    case = next((case for case in recorded_cases(folder.manifest) if case.id == CASE), None)
    return None if case is None else answer_result(case, folder, line)


def answer_result(case: Case, run: RunFolder, line: Line) -> Result:
    """The answer as JSON and for people."""
    found = _as_json(case, run, line)
    return Result(found, partial(_print, case, run, line, found), int(line["error"] is not None))


def _answer_sentences(line: Line) -> list[dict[str, Any]]:
    """Sentences of the answer; `support` is None if nothing has verified them.

    `sentence_ids` are of the sentences that verification names, or that the answer cites. Evidence that was
    chosen before the answer is none of them.
    """
    if line.get("answer_support"):
        names = ("text", "support", "probability", "sentence_ids")
        return [{name: one[name] for name in names} for one in line["answer_support"]]
    unverified = {"support": None, "probability": None}
    if line.get("alignment") and line.get("aligned_answer") != "clinician":
        cited = line["alignment"]
        return [
            {"text": one["text"], **unverified, "sentence_ids": list(cited.get(one["id"], ()))}
            for one in line["answer_sentences"]
        ]
    return [{"text": line["answer"], **unverified, "sentence_ids": []}] if line.get("answer") else []


def _status(line: Line) -> str:
    """`answered`, `not_stated` or `unsupported`; the case's status if it has no answer."""
    if line.get("answer_status"):
        return str(line["answer_status"])
    return "answered" if line.get("answer") and line["error"] is None else str(line["status"])


def _as_json(case: Case, run: RunFolder, line: Line) -> dict[str, Any]:
    status = _status(line)
    answered = [] if status == "not_stated" else _answer_sentences(line)
    nearest = line.get("nearest_sentences") or []
    named = {id_ for one in answered for id_ in one["sentence_ids"]} or set(nearest)
    return {
        "question": case.question,
        "status": status,
        "answer": line.get("answer"),
        "answer_sentences": answered,
        "nearest_sentences": nearest,
        "sentences": [{"id": one.id, "text": one.text} for one in case.sentences if one.id in named],
        "of_sentences": len(case.sentences),
        "flags": line["flags"],
        "error": line["error"],
        "models": {role: model.name for role, model in run.manifest.models.items()},
        "run": str(run.path),
    }


def _print(case: Case, run: RunFolder, line: Line, found: dict[str, Any]) -> None:
    from cli.terminal import output

    sentences = found["answer_sentences"]
    if line["error"] is not None:
        print_line(f"failed: {line['error']['class']}: {line['error']['message']}", "red")
    elif found["status"] == "not_stated":
        output().print(safe(found["answer"], "bold"))
    elif sentences:
        for one in sentences:
            output().print(safe(one["text"], "bold"))
            print_line(f"  {_mark(one)}", _COLOURS.get(one["support"], "yellow"), wrap=True)
    else:
        print_line("no answer" + (f": {', '.join(line['flags'])}".replace("_", " ") if line["flags"] else ""))
    shown = found["sentences"]
    if shown:
        print_line()
        total = plural(len(case.sentences), "sentence")
        heading = (
            "nearest sentences:" if found["nearest_sentences"] else f"rests on {len(shown):,} of {total}"
        )
        if found["status"] == "unsupported":
            heading = "sentences of the note named above:"
        print_line(heading)
        print_rows(("id", "sentence"), [(one["id"], one["text"]) for one in shown[:_ROWS]], right=("id",))
        if len(shown) > _ROWS:
            print_line(f"... and {len(shown) - _ROWS:,} more")
    print_line()
    print_line(f"run: {run.path}")
    again = "retry" if line["error"] is not None else "show"
    case_id = "" if again == "retry" else f" {CASE}"
    print_line(f"next: evigraph {again} {quoted(run.path)}{case_id}")


def _mark(one: dict[str, Any]) -> str:
    """`supported by 3, 7`, or why the sentence is marked."""
    ids = ", ".join(one["sentence_ids"])
    share = "" if one["probability"] is None else f" (P(supported) {one['probability']:.2f})"
    if one["support"] is None:
        return f"cites {ids}; not verified" if ids else "not verified"
    if one["support"] == "supported":
        return (
            f"supported by {ids}{share}"
            if ids
            else f"supported, but no sentence shares a word with it{share}"
        )
    words = "CONTRADICTED by the note" if one["support"] == "contradicted" else "NOT STATED in the note"
    return f"{words}{share}" + (f"; see {ids}" if ids else "")
