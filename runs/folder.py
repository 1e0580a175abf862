"""A run is a folder: readable at any moment, resumable after a kill."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from cases.files import end_of_whole_lines
from runs.manifest import SCHEMA_VERSION, Manifest, RunError
from runs.trace_file import TraceFile, open_for_append, pack

MANIFEST = "run.json"
CASES = "cases.jsonl"
CALLS = "calls.sqlite"
_LOCK = ".lock"

Line = dict[str, Any]


class RunFolder:
    """Reads a run. Lines that a kill has torn are passed over; the last line of a case counts."""

    def __init__(self, path: Path) -> None:
        """Open a run folder.

        Raises:
            RunError: It has no run, or one of another version.
        """
        self.path = path
        if not (path / MANIFEST).is_file():
            raise RunError(f"{path}: no run here ({MANIFEST} is missing)")
        self.manifest = self.read_manifest()

    def read_manifest(self) -> Manifest:
        """`run.json` as it is now.

        Raises:
            RunError: It cannot be read, or another version wrote it.
        """
        text = (self.path / MANIFEST).read_text("utf-8")
        try:
            version = json.loads(text)["schema_version"]
            if version > SCHEMA_VERSION:
                raise RunError(f"{self.path}: written by a newer Evigraph (schema {version}); update first")
            if version < SCHEMA_VERSION:
                raise RunError(
                    f"{self.path}: written by an older Evigraph (schema {version}, this one reads"
                    f" {SCHEMA_VERSION}); run its cases again"
                )
            return Manifest.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise RunError(f"{self.path / MANIFEST}: {field}: {first['msg']}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self.path / MANIFEST}: not a manifest: {error}") from None

    def cases(self) -> Iterator[Line]:
        """The latest line of each case, streamed, in the order of the file."""
        latest = {line["case_id"]: offset for offset, line in _lines(self.path / CASES)}
        for offset, line in _lines(self.path / CASES):
            if latest[line["case_id"]] == offset:
                yield line

    def case(self, case_id: str) -> Line | None:
        """The latest line of a case."""
        found = None
        for _, line in _lines(self.path / CASES):
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
            hint = f"did you mean {near[0]!r}?" if near else f"see: evigraph show {self.path}"
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
        return {
            line["case_id"]: line["status"] + (f":{line['error']['class']}" if line["error"] else "")
            for _, line in _lines(self.path / CASES)
        }


class RunWriter(RunFolder):
    """The one process that writes a run. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open a run for writing: take its lock and cut off torn lines.

        Raises:
            RunError: No run, or another process is writing it.
        """
        super().__init__(path)
        self._lock = _take_lock(path)
        self._cases = _open_for_append(path / CASES)
        self._trace = open_for_append(path)

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> RunWriter:
        """Make a new run folder.

        Raises:
            RunError: The folder holds something already.
            OSError: It cannot be written.
        """
        if path.exists() and any(path.iterdir()):
            holds_run = (path / MANIFEST).is_file()
            hint = f"go on with it: evigraph resume {path}" if holds_run else "choose another --out"
            raise RunError(f"{path}: the folder is not empty; {hint}")
        path.mkdir(parents=True, exist_ok=True)
        _write_atomically(path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
        return cls(path)

    def share_journal(self, journal: Path) -> None:
        """Link to a journal that other runs use too, instead of beginning one.

        Raises:
            OSError: The link cannot be made.
        """
        (self.path / CALLS).symlink_to(os.path.relpath(journal.resolve(), self.path.resolve()))

    def save_manifest(self) -> None:
        """Write `run.json` in one step."""
        _write_atomically(self.path / MANIFEST, self.manifest.model_dump_json(indent=2) + "\n")

    def append(self, case: Line, trace: Sequence[Line]) -> None:
        """Add an ended case; the trace comes first, so that every case line has one."""
        if trace:
            _append(self._trace, pack(trace))
        _append(self._cases, (json.dumps(case, ensure_ascii=False) + "\n").encode(errors="replace"))

    def compact(self, order: Mapping[str, int]) -> None:
        """Put `cases.jsonl` into input order with one line a case, so that equal runs are equal bytes."""
        path = self.path / CASES
        offsets: dict[str, int] = {}
        for offset, line in _lines(path):
            offsets[line["case_id"]] = offset
        temporary = path.with_suffix(".tmp")
        with path.open("rb") as source, temporary.open("wb") as target:
            # A case that a corrected file does not have any more has no place.
            for case_id in sorted(offsets.keys() & order.keys(), key=lambda id_: order[id_]):
                source.seek(offsets[case_id])
                target.write(source.readline())
            target.flush()
            os.fsync(target.fileno())
        self._cases.close()
        temporary.replace(path)
        self._cases = _open_for_append(path)

    def close(self) -> None:
        """Close the files and give the lock back."""
        for file in (self._cases, self._trace, self._lock):
            file.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    """Whole lines with their byte offsets; a torn last line is not whole."""
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield offset, json.loads(line)
            offset += len(line)


def _append(file: IO[bytes], content: bytes) -> None:
    rest = memoryview(content)
    end = file.tell()
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        # A full disk may have taken half of it; the next reader must not find that.
        os.ftruncate(file.fileno(), end)
        raise


def _open_for_append(path: Path) -> IO[bytes]:
    """Open at the end of the last whole line. Unbuffered, so that a failed write leaves nothing behind."""
    file = path.open("r+b" if path.exists() else "w+b", buffering=0)
    end = end_of_whole_lines(file)
    file.truncate(end)
    file.seek(end)
    return file


def _take_lock(path: Path) -> IO[bytes]:
    lock = (path / _LOCK).open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise RunError(f"{path}: another process is writing this run") from None
    return lock


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
