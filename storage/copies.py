"""Case files by URL: each is fetched once into a private folder of this process, and all read that copy.

The place of a copy follows from its URL, so that a place can be named before anything is fetched, and files
next to a case file are found as on a disk. The folder is removed with the process. A killed process's folder
is removed by the next process that makes such a folder; a lock keeps it off those of processes that run.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage.errors import InputError
from storage.locks import FileLock, LockedError
from storage.url_names import call_by_url, name_of

PREFIX = "evigraph-inputs-"
"""How the folders begin that hold copies, in the folder for temporary files."""

OBJECTS = (".xml", ".jsonl", ".json", ".yaml", ".yml")
"""Suffixes of URLs that name an object; every other one names a folder."""

_LOCK = ".lock"
_TRIES = 100

Fetcher = Callable[[str, Path], bool]
"""Copies the object of a URL to a path; returns whether it exists.

Raises InputError where that cannot be found out, and leaves nothing then.
"""


@dataclass(slots=True)
class _Copies:
    """The folder of this process.

    Attributes:
        known: Whether there is anything at the URL of a place that was looked at.
    """

    folder: Path
    lock: FileLock
    owner: int = field(default_factory=os.getpid)
    known: dict[Path, bool] = field(default_factory=dict)


_copies: _Copies | None = None
_fetcher: Fetcher | None = None
_turn = threading.RLock()


def fetch_by(fetcher: Fetcher) -> None:
    """Register the fetcher: access to object storage is above this package."""
    global _fetcher
    _fetcher = fetcher


def place_of(url: str) -> Path:
    """Path of the copy of a URL.

    Raises:
        InputError: It has a part that no file can have.
        OSError: The folder for the copies cannot be made.
    """
    protocol, _, rest = url.rstrip("/").partition("://")
    parts = rest.removeprefix("/" if protocol == "file" else "").split("/")
    if not protocol or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise InputError(url, "has an empty part, or one of . or ..", "Copy it under another name")
    return _folder().joinpath(protocol, *parts)


def url_of(path: Path) -> str | None:
    """The URL whose copy a path is, or will be; None for a path of the user's own."""
    if _copies is None or not path.is_relative_to(_copies.folder):
        return None
    return name_of(path)


def folder_of(path: Path) -> Path:
    """Its folder, or the path itself if the URL names a folder."""
    return path.parent if path.suffix.lower() in OBJECTS else path


def fetch(path: Path, purpose: str = "") -> None:
    """Make the copy of a URL, where there is something; nothing is done for a path of the user's own.

    Raises:
        InputError: It cannot be fetched.
        PolicyError: A data policy forbids the host.
    """
    url = url_of(path)
    if url is None or _copies is None:
        return
    with _turn:
        known = _copies.known.get(path)
        if known is False or (known and path.exists()):
            return
        if _fetcher is None:
            raise InputError(url, "is a URL", "Name a file or folder of this machine")
        try:
            with _interruptible():
                _copies.known[path] = _fetcher(url, path)
        except InputError as error:
            if not purpose:
                raise
            raise InputError(url, f"cannot be looked for as {purpose}: {error.fault}", error.remedy) from None
        except OSError as error:
            raise InputError(
                url, f"cannot be copied to {_copies.folder}: {error.strerror or error}"
            ) from None


def remove_copies() -> None:
    """Remove this process's folder; files are fetched again when needed."""
    global _copies
    if _copies is None or _copies.owner != os.getpid():
        return
    copies, _copies = _copies, None
    for _ in range(2):
        # A thread that was broken off may just have made a file.
        shutil.rmtree(copies.folder, ignore_errors=True)
    copies.lock.close()


def _folder() -> Path:
    global _copies
    with _turn:
        if _copies is None:
            base = Path(tempfile.gettempdir()).resolve()
            _remove_left(base)
            _copies = _made(base)
            call_by_url(_copies.folder)
            atexit.register(remove_copies)
            _remove_at_signals()
        return _copies.folder


def _made(base: Path) -> _Copies:
    """A folder of our own, locked before anybody takes it for one that was left."""
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        with contextlib.suppress(FileNotFoundError, LockedError):
            lock = FileLock(folder / _LOCK)
            if (folder / _LOCK).exists():
                return _Copies(folder, lock)
            lock.close()
    raise OSError(f"{base}: folders for copies of case files vanish here")


def _remove_left(base: Path) -> None:
    """Remove the folders of processes that have ended without doing so."""
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, LockedError):
            # Somebody else's would not be ours to remove, and a link may lead anywhere.
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with FileLock(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def _remove_at_signals() -> None:
    """Signals that end a process at once skip its exit handlers."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: Any) -> None:
    remove_copies()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let a signal break off what takes long: an event loop that waits for it would hear of none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
