"""A run folder that is built beside its place and takes it once it is whole: a kill leaves nothing there."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cases.private import private_folder
from runs.folder import locked
from runs.manifest import RunError


def demand_free(out: Path) -> None:
    """Ask whether a new run may stand here.

    Raises:
        RunError: Something does already.
    """
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise RunError(f"{out}: is there already, and is not empty; choose another --out")


@contextlib.contextmanager
def place_beside(out: Path, doing: str) -> Iterator[Path]:
    """A folder to build the run in; what a killed process has left there is removed.

    Args:
        out: The run's folder.
        doing: What is done, such as `merging`; the end of the folder's name.

    Raises:
        RunError: Another process is doing it for the same place.
    """
    # Such as `.` has no name of its own.
    place = out.absolute()
    build = place.with_name(f".{place.name}.{doing}")
    private_folder(build)
    with locked(build):
        for left in build.iterdir():
            if not left.name.startswith(".lock"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield build
        except BaseException:
            shutil.rmtree(build, ignore_errors=True)
            raise


def publish(build: Path, out: Path) -> None:
    """Let the folder take its place, an empty folder's too."""
    for folder, _, _ in os.walk(build, topdown=False):
        flush_folder(Path(folder))
    build.rename(out)
    flush_folder(build.parent)


def flush_folder(path: Path) -> None:
    """Have the names in a folder on the disk for good."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def flush(file: IO[bytes]) -> None:
    """Have what was written on the disk for good."""
    file.flush()
    os.fsync(file.fileno())
