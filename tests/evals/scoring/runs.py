"""Run folders as lines make them, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runs.record.folder import RunFolder, RunWriter
from runs.record.manifest import Inputs, Manifest


def done(case_id: str, **fields: Any) -> dict[str, Any]:
    """The line of a case that has evidence and an answer, as runs of the first version wrote it."""
    return {
        "case_id": case_id,
        "status": "done",
        "error": None,
        "labels": {"1": "essential", "2": "not-essential", "3": "essential"},
        "answer": "He was ill. It helped.",
        **fields,
    }


def failed(case_id: str, error: str = "timeout") -> dict[str, Any]:
    """The line of a case that failed after it had been labelled."""
    failure = {"status": "failed", "error": {"class": error, "message": "too late"}, "answer": None}
    return done(case_id) | failure


def make_run(
    folder: Path,
    case_ids: Iterable[str],
    lines: Iterable[dict[str, Any]],
    *,
    labels: dict[str, str] | None = None,
    unreadable: Iterable[str] = (),
    limit: int | None = None,
    keys: Iterable[Path] = (),
) -> RunFolder:
    """A run over cases of three sentences each, which ended with these lines.

    Args:
        folder: Where cases and run are made.
        case_ids: Of the case file.
        lines: Of the run.
        labels: Of the sentences of every case, in the case file.
        unreadable: Ids of those cases whose sentences are not text.
        limit: Of the run.
        keys: Of the run.
    """
    cases = folder / "cases.jsonl"
    broken, gold = {*unreadable}, {} if labels is None else {"labels": labels}
    entries = (
        {
            "case_id": id_,
            "question": "Why?",
            "sentences": [1] if id_ in broken else ["A.", "B.", "C."],
            **gold,
        }
        for id_ in case_ids
    )
    cases.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    manifest = Manifest(
        evigraph="0",
        system="tamu",
        recipe={"system": "tamu"},
        recipe_sha256="",
        recipe_origin="tamu",
        prompts={},
        inputs=Inputs(
            paths=[str(cases)],
            keys=[str(key) for key in keys],
            sha256="",
            cases=len([*case_ids]) if limit is None else limit,
            limit=limit,
        ),
        models={},
        versions={},
    )
    with RunWriter.create(folder / "run", manifest) as run:
        for line in lines:
            run.append(line, [])
    return RunFolder(folder / "run")
