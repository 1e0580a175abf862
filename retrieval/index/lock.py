"""One build at a time in the folder of an index."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from cases.errors import InputError
from retrieval.index.manifest import MANIFEST

_LOCK = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder of an index, made if need be.

    Raises:
        InputError: It is held by another process, or is a folder of something else.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(folder, "is a file", "Name a folder for the index")
    entries = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if MANIFEST not in entries and entries - {_LOCK}:
        raise InputError(folder, "is a folder of something else", "Name a new folder for the index")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(folder, "is being built by another process", "Wait for its end") from error
        yield
