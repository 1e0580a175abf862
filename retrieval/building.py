"""Common parts of corpus and index builders: a manifest, a lock, and errors with the kept state.

A build is a folder with a manifest, written as a whole. A build that was killed is continued by the same
command: the manifest says how far it came.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cases.formats.json_border import first_fault
from cases.texts import quoted
from storage.errors import InputError
from storage.files import opened, write_atomically
from storage.locks import FileLock, LockedError

LOCK = ".lock"


class Fields(BaseModel):
    """Part of a manifest; unknown fields are those of another version."""

    model_config = ConfigDict(extra="forbid")


class BuildManifest(Fields):
    """Manifest of a build.

    Attributes:
        complete: Whether it can be searched; False while it is built.
    """

    FILE: ClassVar[str]
    WHAT: ClassVar[str]
    COMMAND: ClassVar[str]
    """Builds one in the folder that is given after `--out`."""

    complete: bool = False

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The manifest of a folder, finished or not; None where there is none.

        Raises:
            InputError: It is damaged, or of another version.
        """
        path = folder / cls.FILE
        return read_fields(path, cls, cls.WHAT) if path.is_file() else None

    @classmethod
    def read_finished(cls, folder: Path) -> Self:
        """The manifest of what can be searched.

        Raises:
            InputError: There is none, or it is half built.
        """
        manifest = cls.read(folder)
        if manifest is None:
            fault = f"contains no {cls.WHAT}" if folder.exists() else "no such folder"
            raise InputError(folder, fault, f"Build one: {cls.COMMAND} --out {quoted(folder)}")
        if not manifest.complete:
            remedy = "Repeat the command that builds it: it continues"
            raise InputError(folder, f"this {cls.WHAT} is not finished", remedy)
        return manifest

    def write(self, folder: Path) -> None:
        """Replace the manifest of a folder as a whole.

        Raises:
            InputError: It cannot be written.
        """
        write_fields(folder / self.FILE, self)


FieldsT = TypeVar("FieldsT", bound=Fields)
ManifestT = TypeVar("ManifestT", bound=BuildManifest)


class Progress(NamedTuple):
    """Progress of a build.

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
    """

    manifest: ManifestT
    found: int
    unchanged: bool


def read_fields(path: Path, kind: type[FieldsT], what: str) -> FieldsT:
    """Read the manifest of a build or a part.

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


def write_fields(path: Path, fields: Fields) -> None:
    """Replace the manifest of a build or a part as a whole.

    Raises:
        InputError: It cannot be written.
    """
    write_atomically(path, [fields.model_dump_json(indent=1).encode() + b"\n"])


@contextlib.contextmanager
def building(folder: Path, kind: type[BuildManifest], others: Iterable[str] = ()) -> Iterator[None]:
    """Hold a folder for one build at a time; it is made if need be.

    A folder without the manifest is somebody else's, unless it is empty or has only `others` in it.

    Raises:
        InputError: The folder is held by another process, or is of something else, or the disk is full.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(folder, "is a file", f"Name a folder for the {kind.WHAT}")
        entries = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        foreign = {name for name in entries if not name.startswith(LOCK)}.difference(others)
        if kind.FILE not in entries and foreign:
            raise InputError(
                folder, "is a folder of something else", f"Name a new folder for the {kind.WHAT}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            yield
    except LockedError as error:
        raise InputError(folder, f"is being built: {error}", "Wait for its end") from error
    except OSError as error:
        remedy = "Build again once it can be written: finished parts are kept"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "Free some space and build again: finished parts are kept"
        raise InputError(folder, f"cannot be written: {error.strerror or error}", remedy) from error


def bytes_in(folder: Path) -> int:
    """Total bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
