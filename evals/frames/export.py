"""Runs to Parquet files, a few thousand rows in memory at a time."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cases.errors import InputError
from evals.frames.tables import SCHEMAS, NamedRun, Row, rows_of_case, run_row
from runs.folder import Line

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


def export(runs: Sequence[NamedRun], folder: Path) -> dict[str, int]:
    """Write `runs`, `cases`, `sentences`, `votes` and `calls` as Parquet files.

    Args:
        runs: The runs; their names stand in every row.
        folder: Where the files go; files of the same names are replaced, all of them at the end.

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
