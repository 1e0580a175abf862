"""What a viewer needs to know of a run at once, and where the rest stands: `index.sqlite` in the run folder.

The index is made of the other files and can be deleted at any time. It grows with the run: a refresh reads
only what is new. Where the folder cannot be written it is kept in memory.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import orjson
from pydantic import TypeAdapter

from cases.errors import InputError
from cases.load import find_cases
from cases.records import Case
from runs.case_summary import (
    CaseSummary,
    count_wrong,
    essential_by_people,
    essential_of,
    summarise_line,
    summarise_pass,
)
from runs.folder import CASES, RunFolder
from runs.inputs import recorded_cases
from runs.manifest import RunError
from runs.trace_file import Line, Place, TraceFile

INDEX = "index.sqlite"
_VERSION = 1
_BATCH = 500

Report = Callable[[str], None]

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS passes (
    case_id TEXT PRIMARY KEY, file TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    route TEXT NOT NULL, seconds REAL, started_at REAL
);
CREATE TABLE IF NOT EXISTS lines (
    case_id TEXT PRIMARY KEY, start INTEGER NOT NULL, end INTEGER NOT NULL,
    summary TEXT NOT NULL, essential TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS texts (
    case_id TEXT PRIMARY KEY, position INTEGER NOT NULL, body BLOB NOT NULL, essential TEXT
);
"""
_CASE = TypeAdapter(Case)


class RunIndex:
    """Rows of all cases, and each case's line, trace and texts at once. For one thread at a time."""

    def __init__(self, folder: RunFolder) -> None:
        """Open or create the index; nothing is read before `refresh`."""
        self.folder = folder
        self._trace = TraceFile(folder.path)
        self._database = _open(folder.path / INDEX)
        self._texts_tried = False
        # Made when it is first asked for: a scan of all cases takes longer than the rest of a case's page.
        self._order: list[str] | None = None
        self._places: dict[str, int] = {}

    def refresh(self, report: Report = lambda _: None) -> bool:
        """Take in what the run has written since.

        Args:
            report: Told in a line of what takes long.

        Returns:
            Whether anything was new.

        Raises:
            RunError: A file of the run is damaged.
        """
        fresh = self._read_texts(report)
        # The trace of a case is written before its line, so lines that are there now have one.
        size = _size(self.folder.path / CASES)
        self._read_trace(report)
        return self._read_lines(size, report) or fresh

    def summaries(self) -> Iterator[CaseSummary]:
        """A row for each case that has ended, in input order."""
        rows = self._database.execute(
            "SELECT case_id, COALESCE(texts.position, lines.rowid - 1) AS place, summary, route, seconds,"
            " started_at, lines.essential, texts.essential"
            " FROM lines LEFT JOIN passes USING (case_id) LEFT JOIN texts USING (case_id) ORDER BY place"
        )
        for case_id, position, summary, route, seconds, started_at, labelled, key in rows:
            known = orjson.loads(summary)
            known |= {name: tuple(known[name]) for name in ("flags", "votes_by_count")}
            yield CaseSummary(
                case_id=case_id,
                position=position,
                wrong=count_wrong(orjson.loads(labelled), None if key is None else orjson.loads(key)),
                route=tuple(orjson.loads(route or "[]")),
                seconds=seconds,
                started_at=started_at,
                **known,
            )

    def neighbours(self, case_id: str) -> tuple[str | None, str | None]:
        """The cases before and after it in input order, of those that have ended."""
        if self._order is None:
            rows = self._database.execute(
                "SELECT case_id FROM lines LEFT JOIN texts USING (case_id)"
                " ORDER BY COALESCE(texts.position, lines.rowid - 1)"
            )
            self._order = [row[0] for row in rows]
            self._places = {id_: place for place, id_ in enumerate(self._order)}
        place = self._places.get(case_id)
        if place is None:
            return None, None
        before = self._order[place - 1] if place else None
        after = self._order[place + 1] if place + 1 < len(self._order) else None
        return before, after

    def line(self, case_id: str) -> Line | None:
        """The case's line of `cases.jsonl`."""
        row = self._database.execute("SELECT start, end FROM lines WHERE case_id=?", (case_id,)).fetchone()
        if row is None:
            return None
        with (self.folder.path / CASES).open("rb") as file:
            file.seek(row[0])
            raw = file.read(row[1] - row[0])
        try:
            line: Line = orjson.loads(raw)
        except orjson.JSONDecodeError:
            line = {}
        # The run may just have put its lines into another order.
        return line if line.get("case_id") == case_id else self.folder.case(case_id)

    def trace(self, case_id: str) -> list[Line]:
        """The node executions of the case's last pass; none where the run has no trace of it.

        Raises:
            RunError: The bytes are damaged.
        """
        row = self._database.execute(
            "SELECT file, start, end FROM passes WHERE case_id=?", (case_id,)
        ).fetchone()
        return [] if row is None else self._trace.read(Place(*row))

    def case(self, case_id: str) -> Case | None:
        """The case's texts and key as they were when the index was made; see `texts_fault`."""
        row = self._database.execute("SELECT body FROM texts WHERE case_id=?", (case_id,)).fetchone()
        return None if row is None else _CASE.validate_json(zlib.decompress(row[0]))

    @property
    def texts_fault(self) -> str | None:
        """Why texts are missing, in words; None where they are there."""
        return self._fact("texts_fault") or None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _read_texts(self, report: Report) -> bool:
        """Case texts and keys, once: the files of a run do not change."""
        if self._fact("texts_read") or self._texts_tried:
            return False
        self._texts_tried = True
        inputs = self.folder.manifest.inputs
        fault = ""
        with self._writing():
            self._database.execute("DELETE FROM texts")
            try:
                source = find_cases([Path(path) for path in inputs.paths], [Path(key) for key in inputs.keys])
                if source.digest() != inputs.sha256:
                    fault = "the case files have changed since the run"
                else:
                    self._store_texts(report)
            except InputError as error:
                fault = str(error)
            if not fault:
                self._set_fact("texts_read", "yes")
            self._set_fact("texts_fault", fault)
        return not fault

    def _store_texts(self, report: Report) -> None:
        rows: list[tuple[str, int, bytes, str | None]] = []
        for position, case in enumerate(recorded_cases(self.folder.manifest)):
            body = zlib.compress(orjson.dumps(asdict(case)), 1)
            essential = essential_by_people(case)
            rows.append((case.id, position, body, None if essential is None else _json(essential)))
            if len(rows) == _BATCH:
                report(f"reading the texts of {self.folder.manifest.inputs.cases:,} cases: {position + 1:,}")
                self._database.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?)", rows)
                rows.clear()
        self._database.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?)", rows)

    def _read_trace(self, report: Report) -> None:
        known = self._fact("trace_end")
        after = Place(*orjson.loads(known)) if known else None
        count = 0
        with self._writing():
            for place in self._trace.places(after):
                lines = self._trace.read(place)
                route, seconds, started_at = summarise_pass(lines)
                self._database.execute(
                    "INSERT OR REPLACE INTO passes VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (lines[0]["case_id"], *place, _json(route), seconds, started_at),
                )
                after, count = place, count + 1
                if count % _BATCH == 0:
                    report(f"reading the trace: {count:,} cases")
            if count and after is not None:
                self._set_fact("trace_end", _json(list(after)))

    def _read_lines(self, size: int, report: Report) -> bool:
        path = self.folder.path / CASES
        if not path.exists():
            return False
        status = path.stat()
        known = orjson.loads(self._fact("lines_end") or "[null, 0, null, null]")
        if known[0::3] == [status.st_ino, status.st_mtime_ns] and known[1] == size:
            return False
        with self._writing(), path.open("rb") as file:
            appended = known[0] == status.st_ino and known[1] < size and _tail(file, known[1]) == known[2]
            start = file.seek(known[1] if appended else 0)
            while start < size and (raw := file.readline()).endswith(b"\n"):
                try:
                    line = orjson.loads(raw)
                except orjson.JSONDecodeError as error:
                    raise RunError(f"{path}: damaged from byte {start:,} on: {error}") from None
                end = start + len(raw)
                self._database.execute(
                    "INSERT INTO lines VALUES (?, ?, ?, ?, ?) ON CONFLICT (case_id) DO UPDATE SET"
                    " start=excluded.start, end=excluded.end, summary=excluded.summary,"
                    " essential=excluded.essential",
                    (line["case_id"], start, end, _json(summarise_line(line)), _json(essential_of(line))),
                )
                start = end
            self._set_fact("lines_end", _json([status.st_ino, start, _tail(file, start), status.st_mtime_ns]))
        self._order = None
        return True

    def _fact(self, name: str) -> str:
        row = self._database.execute("SELECT value FROM facts WHERE name=?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def _set_fact(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._database:
                yield
        except sqlite3.Error as error:
            raise RunError(f"{self.folder.path / INDEX}: {error}; delete it, it is made anew") from error


def _open(path: Path) -> sqlite3.Connection:
    """The file, or memory where it cannot be written; made anew where it is of another version."""
    try:
        database = _made_ready(sqlite3.connect(path, check_same_thread=False))
    except sqlite3.OperationalError:
        return _made_ready(sqlite3.connect(":memory:", check_same_thread=False))
    except sqlite3.DatabaseError:
        path.unlink()
        return _made_ready(sqlite3.connect(path, check_same_thread=False))
    return database


def _made_ready(database: sqlite3.Connection) -> sqlite3.Connection:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    with database:
        if version != _VERSION:
            for table in ("facts", "passes", "lines", "texts"):
                database.execute(f"DROP TABLE IF EXISTS {table}")
        # Written even where nothing changes, so that a folder without write access is noticed here.
        database.execute(f"PRAGMA user_version={_VERSION}")
        database.executescript(_TABLES)
    database.execute("PRAGMA synchronous=OFF")
    return database


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _tail(file: BinaryIO, end: int) -> str:
    """The bytes before `end`, to tell a file that has grown from one that was written anew."""
    file.seek(max(0, end - 64))
    return file.read(min(64, end)).hex()
