"""A run as a log that Inspect reads: `inspect view`, `inspect_ai.analysis.samples_df`.

The file has Inspect's JSON form, version 2. A sample is a case: its target are the essential ids of the key,
its answer those of the run, its metadata the votes and the route. It holds no text of a case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.frames.tables import NamedRun
from evals.scoring.gold import predictions
from evals.scoring.score import score
from evals.scoring.scored_task import ScoredTask
from evals.statistics.case_totals import PERCENT
from ranking.measures import PARTS
from runs.record.folder import Line
from storage.files import write_atomically

_VERSION = 2
_SCORER = "strict_f1"


def write_inspect_log(run: NamedRun, folder: Path) -> Path:
    """Write the log into a folder, under a name by which Inspect knows it for one: time, task, id.

    Raises:
        InputError: The file cannot be written.
    """
    manifest = run.folder.manifest
    time = manifest.sessions[0].started.replace(":", "-")
    name = re.sub(r"[^A-Za-z0-9]+", "-", run.folder.path.resolve().name)
    path = folder / f"{time}_{manifest.system}_{name}.json"
    write_atomically(path, _chunks(run))
    return path


def _chunks(run: NamedRun) -> Iterator[bytes]:
    """The file in pieces, a case in memory at a time. Inspect wants everything else before the samples."""
    manifest = run.folder.manifest
    scored = _scored(run)
    of_case: dict[str, dict[str, float]] = {}
    if scored is not None:
        places = {part: scored.columns.index(f"strict {part}") for part in PARTS}
        for case_id, row in zip(scored.case_ids, scored.matrix / PERCENT, strict=True):
            of_case[case_id] = {part: float(row[place]) for part, place in places.items()}
    models = list(dict.fromkeys(model.name for model in manifest.models.values()))
    started, ended = manifest.sessions[0].started, manifest.sessions[-1].finished
    head = {
        "version": _VERSION,
        "status": "success" if manifest.status == "finished" else "cancelled",
        "eval": {
            "created": started,
            "task": f"evigraph/{manifest.system}",
            "task_args": {"recipe": manifest.recipe},
            "dataset": {"name": manifest.inputs.sha256[:12], "samples": manifest.inputs.cases},
            "model": ", ".join(models),
            "config": {},
            "packages": {"evigraph": manifest.evigraph, **manifest.versions},
        },
        "plan": {},
        "results": _results(run, scored),
        "stats": {"started_at": started, "completed_at": ended or started},
    }
    yield json.dumps(head, ensure_ascii=False)[:-1].encode(errors="replace")
    yield b', "samples": ['
    for number, line in enumerate(run.folder.cases()):
        yield (b"," if number else b"") + b"\n"
        sample = _sample(run, line, models[0], of_case.get(line["case_id"]))
        yield json.dumps(sample, ensure_ascii=False).encode(errors="replace")
    yield b"]}\n"


def _scored(run: NamedRun) -> ScoredTask | None:
    """The evidence of the cases that are done and labelled by the key; None where there is none."""
    gold = {case_id: case for case_id, case in run.gold.items() if case.labels}
    made = [one for one in predictions(run.folder) if one.case_id in gold]
    made = [one if one.evidence is not None else replace(one, evidence=()) for one in made]
    return score("2026-2", made, gold, refuse_unknown=False) if made else None


def _sample(run: NamedRun, line: Line, model: str, values: Mapping[str, float] | None) -> dict[str, Any]:
    predicted = [id_ for id_, label in line["labels"].items() if label == "essential"]
    gold = run.gold.get(line["case_id"])
    sample: dict[str, Any] = {
        "id": line["case_id"],
        "epoch": 1,
        "input": f"case {line['case_id']}",
        "target": [id_ for id_ in gold.labels or () if id_ in gold.essential] if gold else [],
        "output": {
            "model": model,
            "choices": [
                {"message": {"role": "assistant", "content": " ".join(predicted)}, "stop_reason": "stop"}
            ],
        },
        "model_usage": {
            model: {
                "input_tokens": line["usage"]["input_tokens"],
                "output_tokens": line["usage"]["output_tokens"],
                "total_tokens": line["usage"]["input_tokens"] + line["usage"]["output_tokens"],
            }
        },
        "metadata": {
            name: line.get(name) for name in ("intent", "vote_counts", "usable_votes", "evidence", "flags")
        },
    }
    if line["error"]:
        # Its message may quote model output.
        sample["error"] = {"message": line["error"]["class"], "traceback": "", "traceback_ansi": ""}
    elif values is not None:
        sample["scores"] = {
            _SCORER: {"value": values["f1"], "answer": " ".join(predicted), "metadata": dict(values)}
        }
    return sample


def _results(run: NamedRun, scored: ScoredTask | None) -> dict[str, Any]:
    manifest = run.folder.manifest
    results: dict[str, Any] = {
        "total_samples": manifest.inputs.cases,
        "completed_samples": manifest.counts.done,
        "scores": [],
    }
    if scored is not None:
        values = scored.values
        # Inspect's headline is the first.
        metrics = {
            f"micro_{name}": {"name": f"micro_{name}", "value": values[f"strict_micro_{name}"] / PERCENT}
            for name in ("f1", "precision", "recall")
        }
        results["scores"] = [{"name": _SCORER, "scorer": _SCORER, "params": {}, "metrics": metrics}]
    return results
