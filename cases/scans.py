"""Files checked by `evigraph scan`: a record of each, by the hash of its bytes and without text.

Records are in the user's state folder, as folders of cases are often read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, ValidationError

from cases.load import CaseSource
from storage.errors import InputError
from storage.private import private_folder, write_private


class ScanRecord(BaseModel):
    """That somebody has looked for identifiers in a file.

    Attributes:
        sha256: Of the file's bytes.
        at: When, UTC in ISO 8601.
        by: The scanner, with its version.
        cases: Number of cases in all files scanned together, such as a key with its cases.
        unreadable: Those of them that cannot be read, and so are sent nowhere.
        kinds: How many findings there were of each kind.
        made_of: SHA-256 of the scanned files that this one was derived from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    at: str
    by: str
    cases: int = 0
    unreadable: int = 0
    kinds: Mapping[str, int] = {}
    made_of: tuple[str, ...] = ()


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(path, error.strerror or str(error)) from None


def keep_scan(made: ScanRecord) -> None:
    """Remember that a file was looked at.

    Raises:
        OSError: It cannot be written.
    """
    private_folder(_folder())
    write_private(_folder() / f"{made.sha256}.json", made.model_dump_json(indent=2).encode() + b"\n")


def scan_of(path: Path) -> ScanRecord | None:
    """The record of a file's current content; None if not scanned.

    Raises:
        InputError: The file cannot be read.
    """
    sha256 = digest(path)
    with contextlib.suppress(OSError, ValidationError):
        found = ScanRecord.model_validate_json((_folder() / f"{sha256}.json").read_bytes())
        return found if found.sha256 == sha256 else None
    return None


def digests(source: CaseSource) -> list[str]:
    """SHA-256 of each case file and key.

    Raises:
        InputError: One cannot be read.
    """
    return [digest(path) for path in (*source.paths, *source.keys)]


def unscanned(source: CaseSource) -> list[Path]:
    """Case files and keys that nobody has looked at as they are now.

    Raises:
        InputError: A file cannot be read.
    """
    return [path for path in (*source.paths, *source.keys) if scan_of(path) is None]


def keep_scans_of_parts(sources: Iterable[Path], parts: Iterable[Path]) -> None:
    """Record files that only hold cases of scanned files; does nothing if those were not scanned.

    Raises:
        InputError: A file cannot be read.
        OSError: A record cannot be written.
    """
    before = [scan_of(path) for path in sources]
    known = [one for one in before if one is not None]
    if not known or len(known) < len(before):
        return
    for part in parts:
        made_of, by = tuple(one.sha256 for one in known), known[0].by
        keep_scan(ScanRecord(sha256=digest(part), at=now(), by=by, made_of=made_of))


def now() -> str:
    """The time, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _folder() -> Path:
    return user_state_path("evigraph") / "scans"
