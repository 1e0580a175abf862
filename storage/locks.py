"""One writer at a time, even if `flock` is refused, has no effect, or is not seen by other machines.

`flock` is tried first: it ends with its process, whatever becomes of that. Where a second lock on the same
file is granted too, where the system has none, or where its mount says that other machines do not see it, a
file next to the lock names the writing process. Each contender writes its own file first and then looks for
those of others, so at most one of them continues.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import secrets
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from storage.disks import disk_of
from storage.private import open_here

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO)
_TRIES = 5


class LockedError(Exception):
    """Another process has the lock; says which one, where that is known."""


class FileLock:
    """A lock, until it is closed or the process ends."""

    def __init__(self, path: Path, *, wait_s: float = 0.0) -> None:
        """Take it, or wait so long for another process.

        `path` is the locked file; files of owners, `NAME.owner-*`, may be next to it.

        Raises:
            LockedError: Another process has it.
            OSError: The file cannot be made.
        """
        self._path = path
        self._owner: Path | None = None
        end = time.monotonic() + wait_s
        while True:
            try:
                self._take()
                return
            except LockedError:
                if time.monotonic() >= end:
                    raise
            time.sleep(random.uniform(0.005, 0.05))  # noqa: S311

    def _take(self) -> None:
        path = self._path
        self._file: IO[bytes] = open_here(path, "wb")
        try:
            works = self._flock() and disk_of(path.parent).locks == "shared"
            if works:
                self._refuse_owner(self._live())
            else:
                self._own()
        except BaseException:
            self._file.close()
            raise

    def _flock(self) -> bool:
        """Lock the file; whether that means anything."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError("another process is writing") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return False
        with open_here(self._path, "wb") as second:
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def _own(self) -> None:
        """Name this process in a file, and look for others after that."""
        for attempt in range(_TRIES):
            self._refuse_owner(self._live())
            own = self._path.with_name(f"{self._path.name}.owner-{secrets.token_hex(8)}")
            self._owner = own
            try:
                with open_here(own, "xb") as file:
                    file.write(json.dumps(_this_process()).encode())
                    os.fsync(file.fileno())
            except OSError:
                self.close()
                raise
            found = [one for one in self._live() if one != own]
            if not found:
                return
            own.unlink(missing_ok=True)
            self._owner = None
            if attempt + 1 == _TRIES:
                self._refuse_owner(found)
            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311

    def _live(self) -> list[Path]:
        """Files of owners that may still run; those of processes that have ended are deleted."""
        found = []
        for path in sorted(self._path.parent.glob(f"{self._path.name}.owner-*")):
            if _has_ended(_read(path)):
                path.unlink(missing_ok=True)
            else:
                found.append(path)
        return found

    def _refuse_owner(self, owners: list[Path]) -> None:
        if not owners:
            return
        named = _read(owners[0])
        who = f"process {named['pid']} on {named['host']}" if named else "another process"
        since = f" since {named['since']}" if named else ""
        kind = disk_of(self._path.parent).kind or "this file system"
        raise LockedError(
            f"{who} is writing{since}; {kind} has no lock that would end with it, so if it has ended, delete"
            f" {owners[0]}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._owner is not None:
            self._owner.unlink(missing_ok=True)
            self._owner = None
        self._file.close()


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock, as seen from this machine; an unreadable one counts."""
    try:
        with path.open("rb") as file:
            # A lock that others share refuses one of a writer no longer than this takes.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            return True
    return any(not _has_ended(_read(one)) for one in path.parent.glob(f"{path.name}.owner-*"))


def _this_process() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _text(Path("/proc/sys/kernel/random/boot_id")),
        "space": _space(),
        "pid": os.getpid(),
        "begun": _begun(os.getpid()),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _read(path: Path) -> dict[str, Any]:
    """The owner's record; empty while it is being written."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    known = isinstance(found, dict) and {"host", "boot", "space", "pid", "begun", "since"} <= found.keys()
    return found if known else {}


def _has_ended(named: dict[str, Any]) -> bool:
    """Whether a process of this machine has ended; unknown for other machines."""
    here = _this_process()
    if not named or named["host"] != here["host"]:
        return False
    if named["boot"] != here["boot"]:
        return bool(here["boot"])
    if named["space"] != here["space"] or not isinstance(named["pid"], int):
        return False
    try:
        os.kill(named["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return bool(named["begun"] != _begun(named["pid"]))


def _begun(pid: int) -> str:
    """When a process began, in the system's own units: numbers of processes are given anew."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _space() -> str:
    """Containers of one machine count their processes by themselves."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
