"""A run is a folder: readable at any moment, resumable after a kill."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from cases.texts import quoted
from runs.record.elsewhere import MARKER, elsewhere
from runs.record.manifest import SCHEMA_VERSION, Counts, Manifest, RunError, Status, repair_hint
from runs.record.publishing import settle
from runs.record.sealed import Damaged, open_document, open_line, seal_document, seal_line
from runs.record.trace_file import TRACE, TraceFile, open_for_append, pack
from serving.journal.files import take_back
from serving.policy.gate import hold
from serving.policy.policy import PolicyError
from storage.disks import disk_of
from storage.files import end_of_whole_lines, write_all
from storage.locks import FileLock, LockedError, is_locked
from storage.private import close_to_others, open_here, private_folder, replace_file

MANIFEST = "run.json"
CASES = "cases.jsonl"
CALLS = "calls.sqlite"
COPY = ".run.json.copy"
"""Copy of `run.json` from its last write, in case it is damaged."""
_LOCK = ".lock"

Line = dict[str, Any]


def status_of(line: Line) -> str:
    """The status of a case; a failed one carries its error class after a colon."""
    return str(line["status"]) + (f":{line['error']['class']}" if line["error"] else "")


def is_impaired(line: Line, flags: Collection[str]) -> bool:
    """Whether a case has ended although a request had failed or a step got no usable reply.

    `flags` are its system's flags for this.
    """
    impaired = bool(line.get("degraded")) or not set(flags).isdisjoint(line["flags"])
    return line["error"] is None and impaired


class CaseLine(NamedTuple):
    """A complete line of `cases.jsonl`, or its fault.

    Attributes:
        number: From 1.
        start: In bytes.
    """

    number: int
    start: int
    line: Line | None
    fault: str = ""


class RunFolder:
    """Reads a run. Lines that a kill has torn are passed over; the last line of a case counts.

    Attributes:
        home: The folder that users know the run by, where others add reviews to it; another one than `path`
            for a session that writes the run elsewhere.
    """

    def __init__(self, path: Path, *, manifest: str = MANIFEST) -> None:
        """Open a run folder.

        Raises:
            RunError: It has no run, a run of another version, or one whose policy forbids the current use.
        """
        self.path = path
        self.home = path
        settle(path)
        if not (path / manifest).is_file():
            raise RunError(f"{path}: no run here ({manifest} is missing)")
        self._manifest = manifest
        self.manifest = self.read_manifest()
        try:
            hold(self.manifest.policies)
        except PolicyError as error:
            raise RunError(f"{path}: {error}") from None

    def read_manifest(self) -> Manifest:
        """The current `run.json`.

        Raises:
            RunError: It cannot be read, or another version wrote it.
        """
        path = self.path / self._manifest
        try:
            fields = open_document(path.read_bytes())
            version = fields["schema_version"]
            if version > SCHEMA_VERSION:
                raise RunError(f"{self.path}: written by a newer Evigraph (schema {version}); update first")
            if version < SCHEMA_VERSION:
                raise RunError(
                    f"{self.path}: written by an older Evigraph (schema {version}, this one reads"
                    f" {SCHEMA_VERSION}); run its cases again"
                )
            return Manifest.model_validate(fields)
        except OSError as error:
            raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None
        except Damaged as error:
            raise RunError(f"{path}: {error}; {repair_hint(self.path)}") from None
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise RunError(f"{path}: {field}: {first['msg']}; {repair_hint(self.path)}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(f"{path}: not a manifest: {error!r}; {repair_hint(self.path)}") from None

    @property
    def status(self) -> Status | Literal["killed"]:
        """As `run.json` records it, or `killed` if the session that it calls running has ended."""
        recorded = self.manifest.status
        return "killed" if recorded == "running" and not is_locked(self.path / _LOCK) else recorded

    def cases(self) -> Iterator[Line]:
        """The latest line of each case, streamed, in the order of the file.

        Raises:
            RunError: A line is damaged, or lines of a finished run are missing.
        """
        latest = {line["case_id"]: offset for offset, line in self._lines()}
        for offset, line in self._lines():
            # A run that is under way may have appended lines since.
            if latest.get(line["case_id"]) == offset:
                yield line

    def case(self, case_id: str) -> Line | None:
        found = None
        for _, line in self._lines():
            if line["case_id"] == case_id:
                found = line
        return found

    def require_case(self, case_id: str) -> Line:
        """The latest line of a case.

        Raises:
            RunError: The case has not ended in this run; names the nearest one that has.
        """
        line = self.case(case_id)
        if line is None:
            near = difflib.get_close_matches(case_id, self.statuses(), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"see: evigraph show {quoted(self.path)}"
            raise RunError(f"{self.path}: no case {case_id!r} has ended in this run; {hint}")
        return line

    def trace(self, case_id: str) -> list[Line]:
        """The node executions of a case's latest pass, in order. Reads the whole file: see `passes`."""
        found: list[Line] = []
        for pass_case_id, lines in self.passes():
            if pass_case_id == case_id:
                found = lines
        return found

    def passes(self) -> Iterator[tuple[str, list[Line]]]:
        """Every pass of every case, streamed: its case id and its node executions in order.

        A case that ran again comes again; its last pass counts.
        """
        for lines in TraceFile(self.path).passes():
            yield lines[0]["case_id"], lines

    def statuses(self) -> dict[str, str]:
        """Status of each case that has ended; failed ones carry their error class after a colon."""
        return {line["case_id"]: status_of(line) for _, line in self._lines()}

    def impaired(self, flags: Collection[str]) -> set[str]:
        """Ids of the cases that ended, but not as failed, with any of the flags."""
        latest = {line["case_id"]: is_impaired(line, flags) for _, line in self._lines()}
        return {case_id for case_id, found in latest.items() if found}

    def case_lines(self) -> Iterator[CaseLine]:
        """Every complete line of `cases.jsonl`, damaged ones with their fault."""
        path = self.path / CASES
        if not path.exists():
            return
        start = 0
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if raw.endswith(b"\n"):
                    try:
                        yield CaseLine(number, start, self.parse(raw))
                    except Damaged as error:
                        yield CaseLine(number, start, None, str(error))
                start += len(raw)

    def parse(self, raw: bytes) -> Line:
        """A line of `cases.jsonl`.

        Raises:
            Damaged: It differs from the written content.
        """
        # Systems bring their nodes, and those langgraph.
        from runs.record.case_shape import misfit

        line = open_line(raw, sealed=self.manifest.sealed)
        if not isinstance(line.get("case_id"), str) or not {"status", "error"} <= line.keys():
            raise Damaged("it is not a line of a case")
        if fault := misfit(line, self.manifest.system):
            raise Damaged(f"case {line['case_id']!r}: {fault}")
        return line

    def damaged(self, number: int, fault: object) -> RunError:
        """The error of a reader that cannot go on after a line of `cases.jsonl`."""
        return RunError(f"{self.path / CASES}: line {number}: {fault}; {repair_hint(self.path)}")

    def damaged_at(self, start: int, fault: object) -> RunError:
        """The same for a line that begins at a byte."""
        number = next((one.number for one in self.case_lines() if one.start >= start), 1)
        return self.damaged(number, fault)

    def _lines(self) -> Iterator[tuple[int, Line]]:
        """Whole lines with their byte offsets; a torn last line is not whole."""
        ended = set()
        for one in self.case_lines():
            if one.line is None:
                raise self.damaged(one.number, one.fault)
            ended.add(one.line["case_id"])
            yield one.start, one.line
        # Cases that have ended stay so, and the counts are as old as the end of the last session.
        expected = self.manifest.counts.total
        if len(ended) < expected:
            raise RunError(
                f"{self.path / CASES}: {expected - len(ended):,} of {expected:,} ended cases are missing;"
                f" {repair_hint(self.path)}"
            )


class RunWriter(RunFolder):
    """The one process that writes a run. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open a run for writing: take its lock and cut off torn lines.

        Raises:
            RunError: No run, or another process is writing it.
        """
        settle(path)
        if not (path / MANIFEST).is_file():
            raise RunError(f"{path}: no run here ({MANIFEST} is missing)")
        # What another process writes until it gives the lock back must not be read before.
        self._lock = take_lock(path)
        opened: list[FileLock | IO[bytes]] = [self._lock]
        try:
            super().__init__(path)
            close_to_others(path)
            _settle(path / CALLS)
            self._cases = _open_for_append(path / CASES)
            opened.append(self._cases)
            self._trace = open_for_append(path)
        except BaseException:
            for file in opened:
                file.close()
            raise

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> RunWriter:
        """Make a new run folder.

        Raises:
            RunError: The folder holds something already.
            OSError: It cannot be written.
        """
        demand_empty(path)
        private_folder(path)
        manifest.sealed = True
        write_manifest(path, manifest)
        return cls(path)

    def share_journal(self, journal: Path) -> None:
        """Link to a journal that other runs use too, instead of beginning one.

        Raises:
            OSError: The link cannot be made.
        """
        (self.path / CALLS).symlink_to(os.path.relpath(journal.resolve(), self.path.resolve()))

    def save_manifest(self) -> None:
        write_manifest(self.path, self.manifest)

    def append(self, case: Line, trace: Sequence[Line]) -> None:
        """Add an ended case; the trace comes first, so that every case line has one."""
        if trace:
            _append(self._trace, pack(trace))
        _append(self._cases, pack_line(case))

    def cut_trace(self, end: int) -> None:
        """Cut off what follows a byte of the trace, the end of a pass."""
        self._trace.truncate(end)
        self._trace.seek(end)

    def compact(self, order: Mapping[str, int]) -> None:
        """Put `cases.jsonl` into input order with one line a case, so that equal runs are equal bytes."""
        path = self.path / CASES
        offsets = {line["case_id"]: offset for offset, line in self._lines()}
        with path.open("rb") as source:

            def kept() -> Iterator[bytes]:
                # A case that a corrected file does not have any more has no place.
                for case_id in sorted(offsets.keys() & order.keys(), key=lambda id_: order[id_]):
                    source.seek(offsets[case_id])
                    yield source.readline()

            replace_file(path, kept())
        self._cases.close()
        self._cases = _open_for_append(path)

    def keep_only(self, order: Mapping[str, int]) -> None:
        """Drop the lines and the passes of all other cases.

        `order` is the place of each kept case in the input.
        """
        statuses = self.statuses()
        self.manifest.counts = Counts.of(statuses[case_id] for case_id in order)
        # First of all, as lines that are counted and missing are damage.
        self.save_manifest()
        self.compact(order)
        trace = TraceFile(self.path)
        passes = (lines for lines in trace.passes() if lines[0]["case_id"] in order)
        replace_file(self.path / TRACE, map(pack, passes))
        self._trace.close()
        self._trace = open_for_append(self.path)

    def close(self) -> None:
        for file in (self._cases, self._trace, self._lock):
            file.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pack_line(case: Line) -> bytes:
    """A line of `cases.jsonl` with its checksum and its end."""
    return seal_line(json.dumps(case, ensure_ascii=False).encode(errors="replace")) + b"\n"


def demand_empty(path: Path) -> None:
    """Ask whether a new run may be made in a folder.

    Raises:
        RunError: It holds something already.
    """
    settle(path)
    if path.exists() and not all(_is_leftover(one) for one in path.iterdir()):
        holds_run = (path / MANIFEST).is_file()
        hint = f"go on with it: evigraph resume {quoted(path)}" if holds_run else "choose another --out"
        raise RunError(f"{path}: the folder is not empty; {hint}")


def _is_leftover(path: Path) -> bool:
    """Whether a file may be a leftover of a run that was killed before it had a manifest."""
    return (
        path.name in (COPY, MARKER)
        or path.name.startswith(_LOCK)
        or (path.name.startswith(".") and path.suffix == ".tmp")
    )


def _append(file: IO[bytes], content: bytes) -> None:
    end = file.tell()
    try:
        write_all(file, content)
    except OSError:
        # A full disk may have taken half of it; the next reader must not find that.
        os.ftruncate(file.fileno(), end)
        raise


def _open_for_append(path: Path) -> IO[bytes]:
    """Open at the end of the last whole line. Unbuffered, so that a failed write leaves nothing behind."""
    file = open_here(path, "r+b" if path.exists() else "w+b")
    end = end_of_whole_lines(file)
    file.truncate(end)
    file.seek(end)
    return file


def take_lock(path: Path, *, from_elsewhere: bool = False) -> FileLock:
    """Keep all other writers off a run.

    `from_elsewhere`: the caller has the files that a session has written elsewhere.

    Raises:
        RunError: There is another one, or one that was killed has left its work elsewhere.
    """
    try:
        lock = FileLock(path / _LOCK)
    except LockedError as error:
        raise RunError(f"{path}: {error}") from None
    except OSError as error:
        kind = disk_of(path).kind
        place = f" (a folder on {kind})" if kind else ""
        raise RunError(
            f"{path}: cannot be written{place}: {error.strerror or error}; copy it to a disk of your own and"
            f" go on there: cp -r {quoted(path)} FOLDER"
        ) from None
    try:
        if not from_elsewhere and (path / MANIFEST).exists() and (found := elsewhere(path)) is not None:
            raise found.refusal(path)
    except BaseException:
        lock.close()
        raise
    return lock


def _settle(journal: Path) -> None:
    """Let the journal be read as it was before a kill. What else is wrong with it is found later."""
    with contextlib.suppress(sqlite3.Error):
        take_back(journal)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other writers off a run.

    Raises:
        RunError: There is one.
    """
    lock = take_lock(path)
    try:
        _settle(path / CALLS)
        yield
    finally:
        lock.close()


def _not_utf8(value: object) -> Iterator[str]:
    """Texts that encode names that are not UTF-8."""
    if isinstance(value, str):
        if value.encode(errors="ignore").decode() != value:
            yield value
    elif isinstance(value, Mapping):
        for one in value.items():
            yield from _not_utf8(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _not_utf8(one)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write `run.json` of a folder in one step, and its copy.

    Raises:
        RunError: It would name a file by bytes that are not UTF-8, which JSON cannot hold.
    """
    try:
        content = seal_document(manifest.model_dump_json(indent=2).encode() + b"\n")
    except PydanticSerializationError:
        name = next(_not_utf8(manifest.model_dump()))
        raise RunError(f"{name}: {MANIFEST} cannot name it, as its name is not UTF-8; rename it") from None
    for name in (MANIFEST, COPY):
        replace_file(path / name, [content])
