"""What the builders of corpora and of indexes share: a manifest, a lock, and errors that say what remains.

A build is a folder with a manifest, written as a whole. A build that was killed is continued by the same
command: the manifest says how far it came.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cases.formats.json_border import first_fault
from storage.errors import InputError
from storage.files import opened, write_atomically
from storage.locks import FileLock, LockedError

LOCK = ".lock"

What = Literal["corpus", "index"]


class Fields(BaseModel):
    """Part of a manifest; unknown fields are those of another version."""

    model_config = ConfigDict(extra="forbid")


class CanBeComplete(Protocol):
    """A manifest that says whether its build has ended."""

    complete: bool


ManifestT = TypeVar("ManifestT", bound=Fields)
CompleteT = TypeVar("CompleteT", bound=CanBeComplete)


class Progress(NamedTuple):
    """How far a build is.

    Attributes:
        stage: Reading counts bytes of the sources; scoring counts parts; encoding, of an index, documents.
        documents: In the corpus so far.
    """

    stage: Literal["reading", "scoring", "encoding"]
    done: int
    total: int
    documents: int


class Built(NamedTuple, Generic[ManifestT]):
    """A finished build.

    Attributes:
        found: Documents that an earlier build had left.
        unchanged: Whether there was nothing to do.
    """

    manifest: ManifestT
    found: int
    unchanged: bool


def read_manifest(path: Path, kind: type[ManifestT], what: What) -> ManifestT:
    """Read a manifest, or that of a part.

    Raises:
        InputError: It is missing, damaged, or of another version.
    """
    with opened(path) as file:
        content = file.read()
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        remedy = f"It is damaged or of another version: build the {what} anew"
        raise InputError(path, first_fault(error), remedy) from error


def write_manifest(path: Path, manifest: Fields) -> None:
    """Replace a manifest as a whole.

    Raises:
        InputError: It cannot be written.
    """
    write_atomically(path, [manifest.model_dump_json(indent=1).encode() + b"\n"])


def require_finished(folder: Path, manifest: CompleteT | None, what: What, command: str) -> CompleteT:
    """The manifest that was read in a folder, if it is of something that can be searched.

    Raises:
        InputError: There is none, or it is half built.
    """
    if manifest is None:
        fault = f"is no {what}" if folder.exists() else "no such folder"
        raise InputError(folder, fault, f"Build one: {command} --out {folder}")
    if not manifest.complete:
        remedy = "Give the command that builds it once more: it goes on"
        raise InputError(folder, f"this {what} is not finished", remedy)
    return manifest


@contextlib.contextmanager
def building(folder: Path, what: What, manifest: str, others: Iterable[str] = ()) -> Iterator[None]:
    """Hold a folder for one build at a time; it is made if need be.

    A folder without the manifest is somebody else's, unless it is empty or has only `others` in it.

    Raises:
        InputError: The folder is held by another process, or is of something else, or the disk is full.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(folder, "is a file", f"Name a folder for the {what}")
        entries = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        foreign = {name for name in entries if not name.startswith(LOCK)}.difference(others)
        if manifest not in entries and foreign:
            raise InputError(folder, "is a folder of something else", f"Name a new folder for the {what}")
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            yield
    except LockedError as error:
        raise InputError(folder, f"is being built: {error}", "Wait for its end") from error
    except OSError as error:
        remedy = "Build again once it can be written: what is finished stays"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "Free some space and build again: what is finished stays"
        raise InputError(folder, f"cannot be written: {error.strerror or error}", remedy) from error


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
