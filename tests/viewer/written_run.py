"""Run folders written line by line, so that a test controls their content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases.formats.plain_jsonl import write_jsonl
from cases.load import find_cases
from cases.records import Case, Gold, Sentence
from runs.record.folder import Line, RunWriter
from runs.record.manifest import Inputs, Manifest, Model, Session, Status
from tests.viewer.case_runs import step

ROUTE = ("classify_intent", "label_evidence", "aggregate_votes", "generate_answer")


def write_cases(path: Path, ids: Sequence[str]) -> Path:
    """Cases of four sentences, of which the key calls `1` and `2` essential."""
    sentences = tuple(Sentence(str(number), f"Sentence {number}.") for number in range(1, 5))
    labels = {"1": "essential", "2": "essential", "3": "not-relevant", "4": "not-relevant"}
    write_jsonl(path, [Case(id_, "Why?", "Why?", sentences, gold=Gold(labels=labels)) for id_ in ids])  # type: ignore[arg-type]
    return path


def new_run(folder: Path, ids: Sequence[str], status: Status = "running", **fields: Any) -> RunWriter:
    """A run of cases, none of which has ended."""
    cases = write_cases(folder.parent / f"{folder.name}.jsonl", ids)
    manifest = Manifest(
        evigraph="0.1.0",
        system="tamu",
        status=status,
        recipe={},
        recipe_sha256="c0ffee",
        recipe_origin=fields.pop("recipe_origin", "demo"),
        prompts={"answer": "abc123"},
        inputs=Inputs(paths=[str(cases)], sha256=find_cases([cases]).digest(), cases=len(ids)),
        models={"label": Model(name=fields.pop("model", "scripted:auto"))},
        versions={"python": "3"},
        sessions=[Session(command="run", started="2026-11-21T10:00:00+00:00")],
        **fields,
    )
    return RunWriter.create(folder, manifest)


def ended(case_id: str, **fields: Any) -> Line:
    """The line of a case that is done; votes divide on `2` and `3`, and `3` is wrong, as `2` is."""
    return {
        "case_id": case_id,
        "status": "done",
        "error": None,
        "labels": {"1": "essential", "2": "not-essential", "3": "essential", "4": "not-essential"},
        "vote_counts": {"1": 3, "2": 1, "3": 2, "4": 0},
        "usable_votes": 3,
        "intent": {"primary": "treatment_plan", "secondary": None, "risk_level": "low"},
        "answer": "Because.",
        "flags": [],
        **dict.fromkeys(("interpreted_question", "evidence", "label_source", "retrieved")),
        "usage": {"calls": 5, "input_tokens": 100, "output_tokens": 10},
        **fields,
    }


def failed(case_id: str, error: str) -> Line:
    """The line of a case that failed."""
    return ended(
        case_id,
        status="failed",
        error={"class": error, "message": "it failed"},
        labels={},
        vote_counts={},
        usable_votes=0,
        intent=None,
        answer=None,
    )


def add(run: RunWriter, line: Line, route: Sequence[str] = ROUTE, seconds: float = 1.5) -> None:
    """End a case."""
    steps = [
        {"case_id": line["case_id"], "step": number, "started": 0.0} | step(node)
        for number, node in enumerate(route)
    ]
    end = {"case_id": line["case_id"], "step": len(route), "node": "__end__"}
    ended = {"started_at": 1.0, "seconds": seconds, "status": line["status"], "error": line["error"]}
    run.append(line, [*steps, end | ended])


def finish(run: RunWriter) -> None:
    """End the run."""
    run.manifest.status = "finished"
    run.save_manifest()
