"""A run that a session writes on another disk: who does, and what to do about it."""

from __future__ import annotations

import json
import os
import socket
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from cases.texts import quoted
from runs.record.manifest import RunError, utc_now
from storage.private import flush_path, write_private

MARKER = ".scratch.json"
"""Says who works on the run elsewhere; gone once all is published."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Folder where a session writes a run, outside the run's own.

    Attributes:
        folder: There; its folder is for this run alone.
        since: When it began, in UTC.
    """

    host: str
    folder: str
    since: str

    @property
    def is_here(self) -> bool:
        """Whether the session's files are on this machine and accessible only to this user."""
        if self.host != socket.gethostname():
            return False
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077

    @property
    def words(self) -> str:
        return f"{self.folder} on {self.host} since {self.since}"

    def resume_command(self, run: Path) -> str:
        return f"evigraph resume {quoted(run)} --scratch {quoted(Path(self.folder).parent)}"

    def refusal(self, run: Path) -> RunError:
        """Error for a run that cannot be written in its folder, with advice."""
        return RunError(
            f"{run}: a session has worked on it in {self.words} and did not end; resume it on that"
            f" machine: {self.resume_command(run)}; if that folder is lost, add --scratch-lost, which"
            " continues from the last published state"
        )


def elsewhere(run: Path) -> Elsewhere | None:
    """Folder where a running or killed session writes the run; None if it is the run's own.

    Raises:
        RunError: The record of it cannot be read.
    """
    path = run / MARKER
    try:
        fields = json.loads(path.read_bytes())
        return Elsewhere(**{name: str(fields[name]) for name in Elsewhere.__slots__})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = type(error).__name__
        raise RunError(f"{path}: cannot be read ({reason}); remove it if it was edited") from None


def begin_elsewhere(run: Path, folder: Path) -> Elsewhere:
    """Record that this machine writes the run in a folder."""
    found = Elsewhere(socket.gethostname(), str(folder), utc_now())
    write_private(run / MARKER, json.dumps(asdict(found)).encode() + b"\n")
    return found


def end_elsewhere(run: Path) -> None:
    """Record that all is published."""
    (run / MARKER).unlink(missing_ok=True)
    flush_path(run)
