"""Run folders as lines make them, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runs.folder import RunFolder, RunWriter
from runs.manifest import Inputs, Manifest


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


def make_run(folder: Path, case_ids: Iterable[str], lines: Iterable[dict[str, Any]]) -> RunFolder:
    """A run over cases of three sentences each, which ended with these lines."""
    cases = folder / "cases.jsonl"
    texts = ["A.", "B.", "C."]
    cases.write_text(
        "".join(json.dumps({"case_id": id_, "sentences": texts}) + "\n" for id_ in case_ids), "utf-8"
    )
    manifest = Manifest(
        evigraph="0",
        system="tamu",
        recipe={},
        recipe_sha256="",
        recipe_origin="tamu",
        prompts={},
        inputs=Inputs(paths=[str(cases)], sha256="", cases=len([*case_ids])),
        models={},
        versions={},
    )
    with RunWriter.create(folder / "run", manifest) as run:
        for line in lines:
            run.append(line, [])
    return RunFolder(folder / "run")
