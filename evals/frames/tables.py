"""The tables that runs make up, their columns and rows, and their export as Parquet and CSV files.

No table holds text of a case unless it is asked for: ids, labels and numbers alone.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evals.analysis.voted_cases import LabelledVote, votes_of_pass
from evals.pages.tables import comma_separated
from evals.scoring.gold import GoldCase
from runs.record.folder import Line, RunFolder
from storage.errors import InputError
from storage.files import write_atomically

Row = dict[str, Any]

Column = tuple[str, pa.DataType]

_TEXT: pa.DataType = pa.string()
_WHOLE: pa.DataType = pa.int64()
_REAL: pa.DataType = pa.float64()
_FLAG: pa.DataType = pa.bool_()
_TEXTS: pa.DataType = pa.list_(pa.string())
_OF_CASE: tuple[Column, ...] = (("run", _TEXT), ("case_id", _TEXT))


def _schema(*columns: Column) -> pa.Schema:
    return pa.schema(list(columns))


SCHEMAS: Mapping[str, pa.Schema] = {
    "runs": _schema(
        ("run", _TEXT),
        ("evigraph", _TEXT),
        ("system", _TEXT),
        ("status", _TEXT),
        ("recipe_sha256", _TEXT),
        ("cases_sha256", _TEXT),
        ("recipe", _TEXT),  # JSON
        ("models", _TEXT),  # JSON by role
        ("cases", _WHOLE),
        ("done", _WHOLE),
        ("failed", _WHOLE),
        ("sessions", _WHOLE),
        ("tokens", _WHOLE),
        ("cost", _REAL),
    ),
    "cases": _schema(
        *_OF_CASE,
        ("status", _TEXT),
        ("error_class", _TEXT),
        ("intent", _TEXT),
        ("secondary_intent", _TEXT),
        ("risk_level", _TEXT),
        ("gold_intent", _TEXT),
        ("sentences", _WHOLE),
        ("essential", _WHOLE),
        ("answer_words", _WHOLE),
        ("usable_votes", _WHOLE),
        ("asked_votes", _WHOLE),
        ("flags", _TEXTS),
        ("calls", _WHOLE),
        ("input_tokens", _WHOLE),
        ("output_tokens", _WHOLE),
        ("seconds", _REAL),
        ("route", _TEXT),
    ),
    "sentences": _schema(
        *_OF_CASE,
        ("sentence_id", _TEXT),
        ("label", _TEXT),
        ("gold_label", _TEXT),
        ("essential_votes", _WHOLE),
        ("usable_votes", _WHOLE),
        ("confidence", _REAL),
        ("ranker_score", _REAL),
        ("high_recall", _FLAG),
        ("low_recall", _FLAG),
    ),
    "votes": _schema(
        *_OF_CASE,
        ("vote", _WHOLE),
        ("voter", _TEXT),
        ("sentence_id", _TEXT),
        ("essential_before", _FLAG),
        ("essential_after", _FLAG),
    ),
    "calls": _schema(
        *_OF_CASE,
        ("node", _TEXT),
        ("role", _TEXT),
        ("model", _TEXT),
        ("server", _TEXT),
        ("sample", _WHOLE),
        ("key", _TEXT),
        ("input_tokens", _WHOLE),
        ("output_tokens", _WHOLE),
        ("cached_tokens", _WHOLE),
        ("thinking_tokens", _WHOLE),
        ("effort", _TEXT),
        ("seconds", _REAL),
        ("retries", _WHOLE),
        ("replayed", _FLAG),
        ("fault", _TEXT),
    ),
}
"""Columns by table. `calls.key` is the key of the run's journal, which holds prompts and replies.
`calls.fault` is `rejected` if there was one: its message may quote the reply."""


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run, the name that its rows carry, and what its key says."""

    name: str
    folder: RunFolder
    gold: Mapping[str, GoldCase]


def run_row(run: NamedRun) -> Row:
    """The one row of a run."""
    manifest = run.folder.manifest
    return {
        "run": run.name,
        "evigraph": manifest.evigraph,
        "system": manifest.system,
        "status": manifest.status,
        "recipe_sha256": manifest.recipe_sha256,
        "cases_sha256": manifest.inputs.sha256,
        "recipe": json.dumps(manifest.recipe, sort_keys=True),
        "models": json.dumps({role: model.name for role, model in manifest.models.items()}, sort_keys=True),
        "cases": manifest.inputs.cases,
        "done": manifest.counts.done,
        "failed": manifest.counts.failed,
        "sessions": len(manifest.sessions),
        "tokens": manifest.total_tokens,
        "cost": manifest.total_cost,
    }


def rows_of_case(run: NamedRun, line: Line, trace: list[Line]) -> Iterator[tuple[str, Row]]:
    """Every row that a case adds, with the name of its table; `trace` is of its last pass."""
    of_case: Row = {"run": run.name, "case_id": line["case_id"]}
    gold = run.gold.get(line["case_id"])
    yield "cases", of_case | _case(line, gold, trace)
    for row in _sentences(line, gold):
        yield "sentences", of_case | row
    for row in _votes(line, trace):
        yield "votes", of_case | row
    columns = [name for name in SCHEMAS["calls"].names if name not in ("run", "case_id", "node")]
    for step in trace:
        for call in step.get("calls", ()):
            row = {"thinking_tokens": 0} | {name: call[name] for name in columns if name in call}
            yield (
                "calls",
                of_case | {"node": step["node"]} | row | {"fault": call.get("fault") and "rejected"},
            )


def _votes(line: Line, trace: list[Line]) -> Iterator[Row]:
    """The model's votes, then a ranker's, which is not reflected on."""
    votes = [("llm", number, vote) for number, vote in votes_of_pass(trace)]
    ranked = line.get("ranker_vote")
    if ranked:
        chosen = frozenset(ranked["essential"])
        votes.append(("ranker", ranked["vote"], LabelledVote(chosen, chosen)))
    for voter, number, vote in votes:
        for id_ in line.get("vote_counts") or ():
            row = {"vote": number, "voter": voter, "sentence_id": id_}
            yield row | {"essential_before": id_ in vote.before, "essential_after": id_ in vote.after}


def _case(line: Line, gold: GoldCase | None, trace: list[Line]) -> Row:
    intent = line.get("intent") or {}
    labels = line["labels"]
    ends = [step for step in trace if step["node"] == "__end__"]
    return {
        "status": line["status"],
        "error_class": line["error"]["class"] if line["error"] else None,
        "intent": intent.get("primary"),
        "secondary_intent": intent.get("secondary"),
        "risk_level": intent.get("risk_level"),
        "gold_intent": gold.intent.primary if gold and gold.intent else None,
        "sentences": len(labels) or None,
        "essential": sum(label == "essential" for label in labels.values()) if labels else None,
        "answer_words": len(line["answer"].split()) if line.get("answer") else None,
        "usable_votes": line.get("usable_votes"),
        "asked_votes": line.get("asked_votes"),
        "flags": line["flags"],
        **{name: line["usage"][name] for name in ("calls", "input_tokens", "output_tokens")},
        "seconds": ends[-1]["seconds"] if ends else None,
        "route": " > ".join(step["node"] for step in trace if step["node"] != "__end__") or None,
    }


def _sentences(line: Line, gold: GoldCase | None) -> Iterator[Row]:
    evidence = line.get("evidence") or {}
    confidence = line.get("label_confidence") or {}
    scored = line.get("ranker_scores") or {}
    # A column of that name must not hold weak labels.
    known = (gold.labels if gold and not gold.weak else None) or {}
    for id_, label in line["labels"].items():
        yield {
            "sentence_id": id_,
            "label": label,
            "gold_label": known.get(id_),
            "essential_votes": (line.get("vote_counts") or {}).get(id_),
            "usable_votes": line.get("usable_votes"),
            "confidence": confidence.get(id_),
            "ranker_score": scored.get(id_),
            "high_recall": id_ in evidence.get("high_recall", ()),
            "low_recall": id_ in evidence.get("low_recall", ()),
        }


_ROWS = 20_000


class _Table:
    """One file, written in groups of rows under a temporary name."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._schema = schema
        self._waiting: list[Row] = []
        self._temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        self._writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) >= _ROWS:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        self._temporary.replace(self.path)

    def drop(self) -> None:
        """Leave nothing behind of a file that was not finished."""
        with contextlib.suppress(OSError, ValueError):
            self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
        self._waiting = []


def _write_csv(path: Path) -> None:
    """The rows of a Parquet file for spreadsheets: lists are JSON, and no cell is a formula."""

    def lines() -> Iterator[bytes]:
        with pq.ParquetFile(path) as file:
            yield comma_separated(file.schema_arrow.names, []).encode()
            for batch in file.iter_batches(_ROWS):
                rows = (
                    [json.dumps(one) if isinstance(one, list) else one for one in row.values()]
                    for row in batch.to_pylist()
                )
                yield comma_separated((), rows).encode()

    write_atomically(path.with_suffix(".csv"), lines())


def export(runs: Sequence[NamedRun], folder: Path, *, with_csv: bool = False) -> dict[str, int]:
    """Write `runs`, `cases`, `sentences`, `votes` and `calls` as Parquet files, and as CSV if wanted.

    Files of the same names are replaced, all of them at the end.

    Returns:
        Rows by table.

    Raises:
        InputError: The folder cannot be written.
    """
    tables: dict[str, _Table] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, schema in SCHEMAS.items():
            tables[name] = _Table(folder / f"{name}.parquet", schema)
        for run in runs:
            tables["runs"].add(run_row(run))
            for line, trace in _cases_with_traces(run):
                for name, row in rows_of_case(run, line, trace):
                    tables[name].add(row)
        for table in tables.values():
            table.finish()
            if with_csv:
                _write_csv(table.path)
    except OSError as error:
        raise InputError(folder, f"cannot be written: {error.strerror or error}") from error
    finally:
        for table in tables.values():
            table.drop()
    return {name: table.rows for name, table in tables.items()}


def _cases_with_traces(run: NamedRun) -> Iterator[tuple[Line, list[Line]]]:
    """Each ended case with its last pass, in the order of the trace; which is the last is found out first."""
    lines = {line["case_id"]: line for line in run.folder.cases()}
    last: dict[str, int] = {}
    for number, (case_id, _) in enumerate(run.folder.passes()):
        last[case_id] = number
    for number, (case_id, trace) in enumerate(run.folder.passes()):
        if last[case_id] == number and case_id in lines:
            yield lines[case_id], trace
