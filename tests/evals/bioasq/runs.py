"""Run folders of BioASQ's questions as lines make them, without a model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from runs.record.folder import RunFolder, RunWriter
from runs.record.manifest import GraphShape, Inputs, Manifest, Model

QUESTIONS = Path(str(resources.files("cases").joinpath("samples", "bioasq", "questions.json")))


def ideal_lines() -> list[dict[str, Any]]:
    """For every sample the line of a case that says what experts say."""
    lines = []
    for entry in json.loads(QUESTIONS.read_text("utf-8"))["questions"]:
        ids = [address.rpartition("/")[2] for address in entry["documents"]]
        lines.append(
            {
                "case_id": entry["id"],
                "status": "done",
                "error": None,
                "document_ranking": [
                    {"id": id_, "rank": rank, "score": 1.0} for rank, id_ in enumerate(ids, start=1)
                ],
                "snippets": [
                    {
                        "document": one["document"].rpartition("/")[2],
                        "section": one["beginSection"],
                        "begin": one["offsetInBeginSection"],
                        "end": one["offsetInEndSection"],
                        "text": one["text"],
                    }
                    for one in entry["snippets"]
                ],
                "exact_answer": entry.get("exact_answer"),
                "answer": entry["ideal_answer"][0],
            }
        )
    return lines


def failed(line: Mapping[str, Any]) -> dict[str, Any]:
    """The same question, failed."""
    error = {"class": "timeout", "message": "too late"}
    return {"case_id": line["case_id"], "status": "failed", "error": error, "answer": None}


def make_run(
    folder: Path, lines: Iterable[Mapping[str, Any]], *, model: str = "scripted:auto", **recipe: Any
) -> RunFolder:
    """A run over the sample questions that ended with these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = folder / "questions.json"
    shutil.copy(QUESTIONS, questions)
    manifest = Manifest(
        evigraph="0",
        system="bioasq",
        graph=GraphShape(nodes=["answer_exactly"], edges=[]),
        recipe={"system": "bioasq", **recipe},
        recipe_sha256="",
        recipe_origin="bioasq",
        prompts={},
        inputs=Inputs(paths=[str(questions)], sha256="", cases=24),
        models={"answer": Model(name=model)},
        versions={},
    )
    with RunWriter.create(folder / "run", manifest) as run:
        for line in lines:
            run.append(dict(line), [])
    return RunFolder(folder / "run")
