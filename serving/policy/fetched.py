"""Case files and keys by URL of object storage: the text that a user or a record has, and the copy of it."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from serving.policy.object_store import FullDiskError, ObjectStore, StorageError, parse_url
from serving.policy.policy import PolicyError
from serving.protocol.errors import ModelError
from storage.copies import OBJECTS, fetch_by, place_of
from storage.errors import InputError
from storage.url_names import name_of

_log = logging.getLogger("evigraph.inputs")

_FIRST_LINE_S = 5.0
_LINE_EVERY_S = 15.0


def input_path(text: str | Path) -> Path:
    """Path of a case or key file: the path itself, or for a URL the path of the local copy.

    Raises:
        StorageError: It is not a storage URL, or contains a secret.
        InputError: It has a part that no file can have.
    """
    if isinstance(text, Path) or "://" not in text:
        return Path(text)
    protocol, _ = parse_url(text)
    return place_of(protocol + text[len(protocol) :])


InputPath = Annotated[Path, PlainValidator(input_path), PlainSerializer(name_of)]
"""A path or a URL in a definition."""


def _fetch(url: str, target: Path) -> bool:
    """Copy an object, or the case files directly below a URL.

    Raises:
        InputError: It cannot be fetched.
        PolicyError: A policy forbids the host.
    """
    # Readers of case files take longer to import than most commands take.
    from cases.load import CASE_SUFFIXES

    parent, _, name = url.rpartition("/")
    try:
        if target.suffix.lower() in OBJECTS:
            return _copy(_store(parent), name, target)
        store = _store(url)
        names = store.names()
        if names:
            target.mkdir(parents=True, exist_ok=True)
        for one in names:
            if Path(one).suffix.lower() in CASE_SUFFIXES and not one.startswith("."):
                _copy(store, one, target / one)
        return bool(names)
    except PolicyError:
        raise
    except FullDiskError as error:
        # The process's folder is in the folder for temporary files.
        raise _fault(url, error, "Set TMPDIR to a folder with more room") from None
    except ModelError as error:
        raise _fault(url, error) from None


def _fault(url: str, error: ModelError, remedy: str = "") -> InputError:
    words = str(error)
    place = next((one for one in (url, url.rpartition("/")[0]) if words.startswith(f"{one}: ")), "")
    return InputError(url, words.removeprefix(f"{place}: "), remedy)


@functools.lru_cache(maxsize=8)
def _opened(url: str, process: int) -> ObjectStore:
    """Its object store; another process's cannot be used after a fork."""
    return ObjectStore(url, sends=False)


def _store(url: str) -> ObjectStore:
    store = _opened(url, os.getpid())
    store.demand()
    return store


def _copy(store: ObjectStore, name: str, target: Path) -> bool:
    """Copy an object, whole or not at all; whether there is one.

    Raises:
        StorageError: It cannot be read or written, or is another one at the end than at the beginning.
    """
    found = store.look(name)
    if found is None:
        return False
    url = f"{store.url}/{name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if found.size > free:
        raise FullDiskError(f"{url}: has {found.size:,} bytes, and there is room for {free:,}")
    part = target.with_name(f".{target.name}.part")
    try:
        if not store.get(name, part, _Steps(url, found.size).show):
            raise StorageError(f"{url}: was removed while it was fetched")
        if store.look(name) != found:
            raise StorageError(f"{url}: was changed while it was fetched; begin again")
        if (came := part.stat().st_size) != found.size:
            raise StorageError(f"{url}: was cut off: {came:,} of {found.size:,} bytes came; begin again")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return True


class _Steps:
    """A line now and then about what takes long."""

    def __init__(self, url: str, size: int) -> None:
        self._url, self._size = url, size
        self._next = time.monotonic() + _FIRST_LINE_S

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now >= self._next and done < self._size:
            self._next = now + _LINE_EVERY_S
            megabytes = f"{done / 1e6:,.0f} of {self._size / 1e6:,.0f} MB"
            _log.info("fetching %s: %s", self._url, megabytes)


fetch_by(_fetch)
