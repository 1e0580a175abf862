"""Index of a run for viewers: facts needed at once, and positions of the rest, in `index.sqlite`.

The index is derived from the other files and can be deleted at any time. It grows with the run: a refresh
reads only new content. If the folder cannot be written, it is kept in memory.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import orjson
from pydantic import TypeAdapter

from cases.records import Case
from cases.texts import plural
from runs.record.case_summary import (
    CaseSummary,
    given_by,
    summarise_line,
    summarise_pass,
    wanted_by_people,
)
from runs.record.folder import CASES, RunFolder
from runs.record.manifest import RunError, recorded_cases, recorded_source
from runs.record.purged import purged_of
from runs.record.sealed import Damaged
from runs.record.trace_file import Line, Place, TraceFile
from runs.record.without_text import case_without_text
from storage.errors import InputError

INDEX = "index.sqlite"
_VERSION = 6
_BATCH = 500

Report = Callable[[str], None]

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS passes (
    case_id TEXT PRIMARY KEY, start INTEGER NOT NULL, end INTEGER NOT NULL,
    route TEXT NOT NULL, seconds REAL, started_at REAL
);
CREATE TABLE IF NOT EXISTS lines (
    case_id TEXT PRIMARY KEY, start INTEGER NOT NULL, end INTEGER NOT NULL, revision INTEGER NOT NULL,
    status TEXT NOT NULL, wrong INTEGER, correct INTEGER, predicted INTEGER, gold INTEGER, reviewed INTEGER,
    summary TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS texts (
    case_id TEXT PRIMARY KEY, position INTEGER NOT NULL, essential TEXT, body BLOB NOT NULL
);
"""
_CASE = TypeAdapter(Case)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the cases that have ended.

    Attributes:
        scored: Cases that are done, labelled, and have labels of people in their key.
        correct: Essential sentences of those cases on both sides.
        predicted: Their sentences that the run calls essential.
        gold: Their sentences that the key calls essential.
        reviewed: Cases that would be scored if their labels were the run's, and not a reviewer's.
        calls: Of the last pass of each case, replayed ones included.
    """

    statuses: Mapping[str, int]
    scored: int
    correct: int
    predicted: int
    gold: int
    reviewed: int
    calls: int
    input_tokens: int
    output_tokens: int


class RunIndex:
    """Rows of all cases, and each case's line, trace and texts at once. For one thread at a time."""

    def __init__(self, folder: RunFolder) -> None:
        """Open or create the index; nothing is read before `refresh`."""
        self.folder = folder
        self._trace = TraceFile(folder.path)
        self._database = _open(folder.path / INDEX)
        # The digest of the case files for which texts were looked for.
        self._texts_tried = ""
        # Made when it is first asked for: a scan of all cases takes longer than the rest of a case's page.
        self._order: list[str] | None = None
        self._places: dict[str, int] = {}

    def refresh(self, report: Report = lambda _: None) -> bool:
        """Index new content of the run.

        Returns:
            Whether anything was new.

        Raises:
            RunError: A file of the run is damaged.
        """
        fresh = self._read_texts(report)
        # The trace of a case is written before its line, so lines that are there now have one.
        path = self.folder.path / CASES
        size = path.stat().st_size if path.exists() else 0
        self._read_trace(report)
        return self._read_lines(size) or fresh

    @property
    def revision(self) -> int:
        """Grows with each refresh that found ended cases."""
        return int(self._fact("revision") or 0)

    def summaries(self, after: int = 0) -> Iterator[CaseSummary]:
        """A row for each case that has ended, in input order.

        What revision `after` had already is left out.
        """
        rows = self._database.execute(
            "SELECT case_id, COALESCE(texts.position, lines.rowid - 1) AS place, summary, route, seconds,"
            " started_at, wrong"
            " FROM lines LEFT JOIN passes USING (case_id) LEFT JOIN texts USING (case_id)"
            " WHERE revision > ? ORDER BY place",
            (after,),
        )
        routes: dict[str, tuple[str, ...]] = {}
        for case_id, position, summary, route, seconds, started_at, wrong in rows:
            known = orjson.loads(summary)
            known |= {name: tuple(known[name]) for name in ("flags", "votes_by_count", "degraded")}
            route = route or "[]"
            if route not in routes:
                routes[route] = tuple(orjson.loads(route))
            yield CaseSummary(
                case_id=case_id,
                position=position,
                wrong=wrong,
                route=routes[route],
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

    def line(self, case_id: str) -> Line:
        """How a case ended: its line of `cases.jsonl`.

        Raises:
            RunError: It has not ended in this run; names the nearest case.
        """
        row = self._database.execute("SELECT start, end FROM lines WHERE case_id=?", (case_id,)).fetchone()
        if row is None:
            return self.folder.require_case(case_id)
        with (self.folder.path / CASES).open("rb") as file:
            file.seek(row[0])
            raw = file.read(row[1] - row[0])
        try:
            line: Line = self.folder.parse(raw)
        except Damaged:
            line = {}
        # The run may just have put its lines into another order.
        return line if line.get("case_id") == case_id else self.folder.require_case(case_id)

    def trace(self, case_id: str) -> list[Line]:
        """The node executions of the case's last pass; none where the run has no trace of it.

        Raises:
            RunError: The bytes are damaged.
        """
        row = self._database.execute("SELECT start, end FROM passes WHERE case_id=?", (case_id,)).fetchone()
        return [] if row is None else self._trace.read(Place(*row))

    def case(self, case_id: str) -> Case | None:
        """The case's texts and key as they were when the index was made; see `texts_fault`."""
        row = self._database.execute("SELECT body FROM texts WHERE case_id=?", (case_id,)).fetchone()
        return None if row is None else _CASE.validate_json(zlib.decompress(row[0]))

    @property
    def texts_fault(self) -> str | None:
        """Why texts are missing, in words; None where they are there."""
        return self._fact("texts_fault") or None

    def totals(self) -> Totals:
        rows = self._database.execute(
            "SELECT status, COUNT(*), COUNT(correct), TOTAL(correct), TOTAL(predicted), TOTAL(gold),"
            " TOTAL(reviewed), TOTAL(json_extract(summary, '$.calls')),"
            " TOTAL(json_extract(summary, '$.input_tokens')),"
            " TOTAL(json_extract(summary, '$.output_tokens')) FROM lines GROUP BY status"
        ).fetchall()
        sums = [sum(int(row[column]) for row in rows) for column in range(2, 10)]
        return Totals({row[0]: row[1] for row in rows}, *sums)

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """Right, given and wanted of each case that is scored, by its id."""
        rows = self._database.execute(
            "SELECT case_id, correct, predicted, gold FROM lines WHERE correct IS NOT NULL"
        )
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def forget_cases(self) -> None:
        """The case files have been corrected: read everything anew at the next refresh."""
        with self._writing():
            self._database.execute("DELETE FROM texts")
            self._database.execute("DELETE FROM lines")
            self._database.execute("DELETE FROM passes")
            for fact in ("texts_read", "lines_end", "trace_end"):
                self._set_fact(fact, "")

    def close(self) -> None:
        self._database.close()

    def _read_texts(self, report: Report) -> bool:
        """Read case texts and keys, once for each record of the run's files."""
        inputs = self.folder.manifest.inputs
        if self._fact("texts_read") or self._texts_tried == inputs.sha256:
            return False
        self._texts_tried = inputs.sha256
        fault = words = ""
        with self._writing():
            self._database.execute("DELETE FROM texts")
            try:
                if recorded_source(self.folder.manifest).digest() != inputs.sha256:
                    fault = "the case files have changed since the run"
                else:
                    purged = purged_of(self.folder.path)
                    self._store_texts(report, set(purged.cases) if purged is not None else set())
                    words = purged.words if purged is not None else ""
            except InputError as error:
                fault = str(error)
            if not fault:
                self._set_fact("texts_read", "yes")
                # Lines that were read without texts lack their keys.
                self._set_fact("lines_end", "")
            self._set_fact("texts_fault", fault or words)
        return not fault

    def _store_texts(self, report: Report, purged: Collection[str]) -> None:
        rows: list[tuple[str, int, str | None, bytes]] = []
        for position, case in enumerate(recorded_cases(self.folder.manifest)):
            wanted = wanted_by_people(case)
            if case.id in purged:
                case = case_without_text(case)
            body = zlib.compress(orjson.dumps(asdict(case)), 1)
            rows.append((case.id, position, None if wanted is None else _json(wanted), body))
            if len(rows) == _BATCH:
                report(
                    f"reading the texts of {plural(self.folder.manifest.inputs.cases, 'case')}:"
                    f" {position + 1:,}"
                )
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
                    "INSERT OR REPLACE INTO passes VALUES (?, ?, ?, ?, ?, ?)",
                    (lines[0]["case_id"], *place, _json(route), seconds, started_at),
                )
                after, count = place, count + 1
                if count % _BATCH == 0:
                    report(f"reading the trace: {plural(count, 'case')}")
            if count and after is not None:
                self._set_fact("trace_end", _json(list(after)))

    def _read_lines(self, size: int) -> bool:
        path = self.folder.path / CASES
        if not path.exists():
            return False
        status = path.stat()
        known = orjson.loads(self._fact("lines_end") or "[null, 0, null, null]")
        if known[0::3] == [status.st_ino, status.st_mtime_ns] and known[1] == size:
            return False
        revision = self.revision + 1
        with self._writing(), path.open("rb") as file:
            appended = known[0] == status.st_ino and known[1] < size and _tail(file, known[1]) == known[2]
            start = file.seek(known[1] if appended else 0)
            while start < size and (raw := file.readline()).endswith(b"\n"):
                end = start + len(raw)
                try:
                    self._store_line(self.folder.parse(raw), Place(start, end), revision)
                except (Damaged, ValueError, KeyError, TypeError, AttributeError) as error:
                    raise self.folder.damaged_at(start, error) from error
                start = end
            self._set_fact("revision", str(revision))
            self._set_fact("lines_end", _json([status.st_ino, start, _tail(file, start), status.st_mtime_ns]))
        self._order = None
        return True

    def _store_line(self, line: Line, span: Place, revision: int) -> None:
        case_id, summary, given = line["case_id"], summarise_line(line), given_by(line)
        row = self._database.execute("SELECT essential FROM texts WHERE case_id=?", (case_id,)).fetchone()
        kind, ids = orjson.loads(row[0]) if row and row[0] is not None else (None, [])
        counts: tuple[int | None, ...] = (None, None, None)
        comparable = given is not None and given[0] == kind
        # Labels of a reviewer say nothing about the run, as in `evigraph score`.
        reviewed = comparable and bool(line.get("review"))
        wrong = None
        if given is not None and comparable and not reviewed:
            found, gold = set(given[1]), set(ids)
            wrong = len(found ^ gold) if kind == "labels" else int(found != gold)
            # A failed case has no prediction.
            if line["status"] == "done":
                counts = len(found & gold), len(found), len(gold)
        self._database.execute(
            "INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (case_id) DO UPDATE SET"
            " start=excluded.start, end=excluded.end, revision=excluded.revision, status=excluded.status,"
            " wrong=excluded.wrong, correct=excluded.correct, predicted=excluded.predicted,"
            " gold=excluded.gold, reviewed=excluded.reviewed, summary=excluded.summary",
            (case_id, *span, revision, line["status"], wrong, *counts, reviewed, _json(summary)),
        )

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
    if path.is_symlink():
        # It is written in its own folder only.
        return _made_ready(sqlite3.connect(":memory:", check_same_thread=False))
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


def _tail(file: BinaryIO, end: int) -> str:
    """The bytes before `end`, to distinguish a file that has grown from a rewritten one."""
    file.seek(max(0, end - 64))
    return file.read(min(64, end)).hex()
