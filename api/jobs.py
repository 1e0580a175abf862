"""Submitted jobs: one small file per job, next to the folder of runs, so that a restart finds all of them.

The run of job `J` is the folder `J`, an ordinary run. Its submission is in `.jobs/J`: its case file, and
`job.json`, which is written last. A folder without that file was left by a kill, and nobody was told of it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cases.formats.json_border import first_fault
from runs.record.folder import MANIFEST, RunFolder
from runs.record.manifest import Manifest, RunError
from serving.policy.policy import HeldPolicy, keep_beside
from storage.locks import FileLock, LockedError
from storage.private import private_folder, replace_file

_FOLDER = ".jobs"
_RECORD = "job.json"
_LOCK = ".lock"
_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{12}")

Closed = Literal["cancelled", "failed", "stopped"]
"""How a job ended that no restart takes up again: by a person, before its first case, or by its budget."""


class Record(BaseModel):
    """Content of `job.json`.

    Attributes:
        model: As the operator named it.
        settings: Values of the recipe that were changed, by dotted field.
        cases: How many it has, invalid ones included.
        closed: None while a restart takes the job up where it has not ended.
        fault: Why it was closed, in a line.
    """

    model_config = ConfigDict(extra="forbid")

    id: str
    system: str
    recipe: str
    model: str
    settings: dict[str, Any] = Field(default_factory=dict)
    file: str
    cases: int
    submitted_at: str
    submitted_by: str
    key: str | None = None
    digest: str = ""
    closed: Closed | None = None
    fault: str = ""


@dataclass(slots=True)
class Job:
    """A job, with cached facts of its run."""

    record: Record
    path: Path
    _known: tuple[tuple[int, int, int], Manifest] | None = None

    def manifest(self) -> Manifest | None:
        """Manifest of its run, reread after changes; None before the run has begun.

        Raises:
            RunError: It cannot be read.
        """
        try:
            found = (self.path / MANIFEST).stat()
        except FileNotFoundError:
            return None
        version = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._known is None or self._known[0] != version:
            self._known = version, RunFolder(self.path).manifest
        return self._known[1]


class Jobs:
    """All jobs of one folder of runs, which one service has at a time. Any thread may call every method."""

    def __init__(self, root: Path, policies: Iterable[HeldPolicy] = ()) -> None:
        """Take the folder, and read earlier submissions.

        Raises:
            RunError: Another service has the folder, or a file of a job is damaged.
            OSError: It cannot be written.
        """
        self.root = root.resolve()
        self._policies = tuple(policies)
        private_folder(self.root)
        private_folder(self.root / _FOLDER)
        try:
            self._held = FileLock(self.root / _FOLDER / _LOCK)
        except LockedError as error:
            raise RunError(f"{root}: {error}") from None
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._keys: dict[tuple[str, str], str] = {}
        try:
            for record in self._stored():
                self._take(record)
        except BaseException:
            self._held.close()
            raise

    def close(self) -> None:
        self._held.close()

    def new_id(self) -> str:
        """Sorts by time, and cannot be guessed."""
        return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{token_hex(6)}"

    def case_file(self, record: Record) -> Path:
        return self.root / _FOLDER / record.id / record.file

    def stage(self, id_: str, name: str, content: bytes) -> Path:
        """Write the case file of a job that is not there yet; see `add` and `discard`.

        Raises:
            OSError: It cannot be written.
        """
        folder = self.root / _FOLDER / id_
        private_folder(folder)
        keep_beside(folder, self._policies)
        replace_file(folder / name, [content])
        return folder / name

    def discard(self, id_: str) -> None:
        shutil.rmtree(self.root / _FOLDER / id_, ignore_errors=True)

    def add(self, record: Record) -> Job:
        """Keep a job for good; from now on a restart takes it up.

        Raises:
            OSError: It cannot be written.
        """
        self._write(record)
        return self._take(record)

    def close_job(self, job: Job, how: Closed, fault: str) -> None:
        """Note for good that a job is not taken up again.

        Raises:
            OSError: It cannot be written.
        """
        changed = job.record.model_copy(update={"closed": how, "fault": fault})
        self._write(changed)
        job.record = changed

    def get(self, id_: str) -> Job | None:
        """A job by its id, which is only looked up: no request ever becomes a path."""
        return self._jobs.get(id_)

    def by_key(self, user: str, key: str) -> Job | None:
        id_ = self._keys.get((user, key))
        return None if id_ is None else self._jobs.get(id_)

    def all(self) -> list[Job]:
        """Every job, oldest first."""
        with self._lock:
            return [self._jobs[id_] for id_ in sorted(self._jobs)]

    def _take(self, record: Record) -> Job:
        job = Job(record, self.root / record.id)
        with self._lock:
            self._jobs[record.id] = job
            if record.key is not None:
                self._keys[record.submitted_by, record.key] = record.id
        return job

    def _write(self, record: Record) -> None:
        content = record.model_dump_json(indent=2).encode() + b"\n"
        replace_file(self.root / _FOLDER / record.id / _RECORD, [content])

    def _stored(self) -> Iterator[Record]:
        for folder in sorted((self.root / _FOLDER).iterdir()):
            if not _ID.fullmatch(folder.name):
                continue
            path = folder / _RECORD
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                with contextlib.suppress(OSError):
                    shutil.rmtree(folder)
                continue
            try:
                yield Record.model_validate_json(content)
            except ValidationError as error:
                raise RunError(f"{path}: {first_fault(error)}; correct it, or move its folder away") from None
