"""Runs in object storage: pushed file by file, and a run there only once the list of its files is written.

The name of each object ends with the SHA-256 of its content, so existing objects need not be sent again, and
a newer state of a run is next to the older one until its list replaces the old list.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from io import BufferedRandom, BufferedReader
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cases.texts import quoted
from runs.record.audit import AUDIT, record
from runs.record.folder import CALLS, COPY, RunFolder, locked
from runs.record.found import find_runs
from runs.record.index import INDEX
from runs.record.manifest import RunError, utc_now
from runs.record.publishing import built_beside, copy_journal, demand_free, flush, fold_log
from runs.record.purged import purged_of
from runs.record.sealed import Damaged, open_document, seal_document
from serving.policy.gate import hold_for, take_cases
from serving.policy.object_store import ObjectStore
from storage.errors import InputError
from storage.private import open_here, private_folder, write_private

LIST = "pushed.json"
"""The object that makes a run of the others."""
PLAN = "pushing.json"
"""The same list while they are being sent."""

_ID = "push-id"
_COPIES = ".pushing"
_HASHED = re.compile(r"\.[0-9a-f]{64}\Z")
_OF_SQLITE = ("-wal", "-shm", "-journal")
_MAX_LIST = 64 << 20

Step = Callable[[str, int, int], None]
"""Called with the current task, its completed bytes, and its total bytes."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Content(_Record):
    """Content of a file."""

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Listing(_Record):
    """The content of `pushed.json`.

    Attributes:
        run: What no other run has, and this one keeps for as long as it lives.
        name: Of the folder that it was pushed from.
        left: Objects of interrupted pushes.
    """

    version: Literal[1] = 1
    run: str
    name: str
    at: str
    files: dict[str, Content]
    left: tuple[str, ...] = ()

    @property
    def keys(self) -> set[str]:
        """Keys of all current and former objects."""
        return {_key(name, content) for name, content in self.files.items()} | set(self.left)


class Pushed(NamedTuple):
    """Result of a push.

    Attributes:
        files: How many the run has.
        size: Of them all, in bytes.
        sent: How many of them were sent.
        sent_size: Of those, in bytes.
    """

    files: int
    size: int
    sent: int
    sent_size: int


def push(path: Path, url: str, step: Step) -> Pushed:
    """Put a run into object storage; an interrupted push continues.

    Raises:
        RunError: Another process is writing the run, or another run is there.
        PolicyError: No text may go to the host.
        StorageError: The storage cannot be reached or written.
        OSError: A file cannot be read.
    """
    folder = RunFolder(path)
    manifest = folder.manifest
    purged = purged_of(path)
    texts = purged is None or not (purged.whole and purged.complete)
    cases, keys = manifest.inputs.case_files, manifest.inputs.key_files
    hold_for([path, *cases, *keys], manifest.policies, manifest.hosted)
    take_cases(cases, keys)
    with contextlib.ExitStack() as locks:
        # The run and its forks.
        for one in find_runs([path]):
            locks.enter_context(locked(one))
        store = ObjectStore(url, sends=texts)
        # Runs may begin in one second with one command.
        file, identity = path / _ID, secrets.token_hex(16)
        new = not file.is_file() or file.is_symlink()
        if not new:
            identity = file.read_text("utf-8", "replace").strip()
        known, begun = _refuse_other(store, identity)
        if new:
            write_private(file, identity.encode() + b"\n")
        with _whole_files(path) as files:
            contents = {name: _content(file, step) for name, file in files.items()}
            missing = {name for name, one in contents.items() if store.size(_key(name, one)) != one.size}
            size = sum(one.size for one in contents.values())
            if known is not None and known.files == contents and not missing:
                return Pushed(len(contents), size, 0, 0)
            # Before the first text leaves, and then it is sent too.
            record(path, "pushed", to=store.url, files=len(contents), bytes=size, texts=texts)
            files[AUDIT] = path / AUDIT
            contents[AUDIT] = _content(files[AUDIT], step)
            missing.add(AUDIT)
            listing = Listing(
                run=identity,
                name=path.resolve().name,
                at=utc_now(),
                files=contents,
            )
            earlier = set[str]().union(*(one.keys for one in (known, begun) if one is not None))
            listing = listing.model_copy(update={"left": tuple(sorted(earlier - listing.keys))})
            store.write(PLAN, _packed(listing))
            sent_size = _send(store, contents, missing, files, step)
        # Somebody else may have been faster.
        _refuse_other(store, identity)
        store.write(LIST, _packed(listing.model_copy(update={"left": ()})))
        for key in (*listing.left, PLAN):
            store.remove(key)
    return Pushed(len(contents), sum(one.size for one in contents.values()), len(missing), sent_size)


def pull(url: str, out: Path, step: Step) -> tuple[RunFolder, Listing]:
    """Make a folder of a run in object storage, whole or not at all.

    Raises:
        RunError: The run does not exist, an object is missing or damaged, or `out` is not empty.
        PolicyError: A policy forbids the host.
        StorageError: The storage cannot be reached.
        OSError: A file cannot be written.
    """
    demand_free(out)
    store = ObjectStore(url, sends=False)
    listing = _read(store, LIST)
    if listing is None:
        broken = f"; a push has begun and not ended ({PLAN})" if _read(store, PLAN) is not None else ""
        raise RunError(f"{store.url}: no pushed run here ({LIST} is missing){broken}")
    total, done = sum(one.size for one in listing.files.values()), 0
    with built_beside(out, "pulling") as build:
        for name, content in listing.files.items():
            step("fetched", done, total)
            target = build / name
            for folder in reversed(PurePosixPath(name).parents):
                private_folder(build / folder)
            _fetch(store, _key(name, content), content, target)
            done += content.size
    return RunFolder(out), listing


def _fetch(store: ObjectStore, key: str, content: Content, target: Path) -> None:
    open_here(target, "xb").close()
    if not store.get(key, target):
        raise RunError(f"{store.url}/{key}: is missing; push the run again")
    with target.open("r+b") as file:
        if _hash(file) != content.sha256:
            raise RunError(
                f"{store.url}/{key}: is damaged: its SHA-256 differs from {LIST}; remove it there and push"
                " the run again"
            )
        flush(file)


@contextlib.contextmanager
def _whole_files(path: Path) -> Iterator[dict[str, Path]]:
    """Every file that belongs to a run, by its path there; of a journal that others use, a copy.

    Raises:
        InputError: One is a link, or a pipe or the like.
        RunError: A journal cannot be read.
    """
    copies = path / _COPIES
    # Left by a killed push.
    shutil.rmtree(copies, ignore_errors=True)
    found: dict[str, Path] = {}
    try:
        for folder, below, names in os.walk(path):
            below[:] = sorted(name for name in below if not name.startswith("."))
            links = [name for name in below if Path(folder, name).is_symlink()]
            for name in sorted([*names, *links]):
                file = Path(folder, name)
                if _belongs(name):
                    found[file.relative_to(path).as_posix()] = _whole(file, copies)
        yield found
    finally:
        shutil.rmtree(copies, ignore_errors=True)


def _belongs(name: str) -> bool:
    """Whether a file belongs to the run: not a lock, a leftover of a kill, a derived file or SQLite's."""
    hidden = name.startswith(".") and name != COPY
    return not (hidden or name == INDEX or (name.startswith(CALLS) and name.endswith(_OF_SQLITE)))


def _whole(file: Path, copies: Path) -> Path:
    """A file that can be copied unchanged.

    Raises:
        InputError: It is a link, or a pipe or the like.
        RunError: It is a journal that cannot be read.
    """
    if file.name != CALLS:
        if file.is_symlink() or not file.is_file():
            raise InputError(file, "is a link or no file", "Put the file itself in its place")
        return file
    try:
        # Runs of an experiment link to one journal, which the others may be writing.
        if not file.is_symlink() and fold_log(file):
            return file
        private_folder(copies)
        copy = copies / f"{len([*copies.iterdir()])}.sqlite"
        copy_journal(file, copy)
        return copy
    except (sqlite3.Error, OSError) as error:
        raise RunError(
            f"{file}: cannot be read: {error}; check the files: evigraph check {quoted(file.parent)}"
        ) from None


def _content(file: Path, step: Step) -> Content:
    size = file.stat().st_size
    step("read", 0, size)
    with file.open("rb") as opened:
        return Content(size=size, sha256=_hash(opened))


def _hash(file: BufferedReader | BufferedRandom) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _send(
    store: ObjectStore,
    contents: Mapping[str, Content],
    missing: set[str],
    files: Mapping[str, Path],
    step: Step,
) -> int:
    """Send missing objects; returns the number of bytes.

    Raises:
        RunError: A file has changed meanwhile.
    """
    total, done = sum(contents[name].size for name in missing), 0
    for name in sorted(missing):
        step("sent", done, total)
        key = _key(name, contents[name])
        store.put(files[name], key)
        if store.size(key) != contents[name].size:
            raise RunError(f"{files[name]}: has changed while it was sent; push the run again")
        done += contents[name].size
    return done


def _refuse_other(store: ObjectStore, identity: str) -> tuple[Listing | None, Listing | None]:
    """Existing lists of this run: the current one, and that left by an interrupted push.

    Raises:
        RunError: Another run is there.
    """
    found = _read(store, LIST), _read(store, PLAN)
    for one in found:
        if one is not None and one.run != identity:
            raise RunError(
                f"{store.url}: another run is there, pushed from a folder {one.name!r} at {one.at}; choose"
                " another URL"
            )
    return found


def _read(store: ObjectStore, name: str) -> Listing | None:
    content = store.read(name, _MAX_LIST)
    if content is None:
        return None
    try:
        listing = Listing.model_validate(open_document(content, sealed=True))
    except (Damaged, ValidationError) as error:
        if name == PLAN and isinstance(error, Damaged):
            # A full disk may have cut it; it is written anew.
            return None
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise RunError(f"{store.url}/{name}: {reason}; it was not written by this version") from None
    # The names come from others, and must not lead out of the folder.
    left = [_HASHED.sub("", one) if _HASHED.search(one) else "" for one in listing.left]
    for one in (*listing.files, *left):
        parts = PurePosixPath(one).parts
        plain = one == "/".join(parts) and "\0" not in one and not one.startswith("/")
        if not (plain and parts and _belongs(parts[-1])) or any(part.startswith(".") for part in parts[:-1]):
            raise RunError(f"{store.url}/{name}: names a file {one!r}, which no run has")
    return listing


def _packed(listing: Listing) -> bytes:
    return seal_document(listing.model_dump_json(indent=2).encode() + b"\n")


def _key(name: str, content: Content) -> str:
    return f"{name}.{content.sha256}"
