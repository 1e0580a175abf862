"""A run that a session writes on another disk: who does, and how what it publishes takes its place.

What is published is first written whole into a folder below the run, whose new name then makes it count: from
then on its files only have to be moved, and whoever opens the run does that where a kill has come between.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from runs.record.manifest import RunError, quoted, utc_now
from storage.files import write_all
from storage.private import flush_folder, open_here, write_private

MARKER = ".scratch.json"
"""Says who works on the run elsewhere; gone once all is published."""

_BEING_WRITTEN = ".publishing-{}.tmp"
_WHOLE = ".published-"
_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a session writes a run.

    Attributes:
        folder: There; its folder is for this run alone.
        since: When it began, in UTC.
    """

    host: str
    folder: str
    since: str

    @property
    def is_here(self) -> bool:
        """Whether this is the machine, and what the session wrote is there, and this user's alone."""
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
        """Why a run cannot be written where it lies, and what to do."""
        return RunError(
            f"{run}: a session has worked on it in {self.words} and did not end; go on with that on that"
            f" machine: {self.resume_command(run)}; if that folder is lost, add --scratch-lost, which goes on"
            " from what was last published"
        )


def elsewhere(run: Path) -> Elsewhere | None:
    """Where a session writes the run, be it under way or killed; None where that is its own folder.

    Raises:
        RunError: The file that says so cannot be read.
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
    flush_folder(run)


def publish_files(run: Path, files: Iterable[tuple[str, IO[bytes], int]]) -> None:
    """Let files take the place of those of a run, all or none; one process at a time may.

    `files` are in the order in which they take their place, each with what is copied and how many bytes of
    it.

    Raises:
        RunError: What was published before cannot take its place.
        OSError: A file cannot be read or written; nothing has changed.
    """
    settle(run)
    for left in run.glob(_BEING_WRITTEN.format("*")):
        shutil.rmtree(left, ignore_errors=True)
    name = secrets.token_hex(8)
    staged = run / _BEING_WRITTEN.format(name)
    staged.mkdir(mode=0o700)
    try:
        for number, (file, source, size) in enumerate(files):
            with open_here(staged / f"{number} {file}", "xb") as target:
                copy_bytes(source, target, size)
                os.fsync(target.fileno())
        flush_folder(staged)
        staged.rename(run / f"{_WHOLE}{name}")
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    flush_folder(run)
    settle(run)


def copy_bytes(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy so many bytes, or as many as there are."""
    while size and (block := source.read(min(size, _AT_ONCE))):
        size -= len(block)
        write_all(target, block)


def settle(run: Path) -> None:
    """Let what was published take its place, where a kill has come between; readers may, at any time.

    Raises:
        RunError: This user cannot.
    """
    try:
        with os.scandir(run) as entries:
            published = [entry.name for entry in entries if entry.name.startswith(_WHOLE)]
    except OSError:
        return
    for folder in (run / name for name in sorted(published)):
        try:
            for file in sorted(folder.iterdir(), key=lambda one: int(one.name.partition(" ")[0])):
                # Another process may be doing the same.
                with contextlib.suppress(FileNotFoundError):
                    file.replace(run / file.name.partition(" ")[2])
            flush_folder(run)
            folder.rmdir()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RunError(
                f"{run}: its last publication was broken off and cannot be ended here: {reason}; open it once"
                f" as its owner: evigraph show {quoted(run)}"
            ) from None
