"""Numbers computed of a source once for all its queries, kept in memory, and in files if a folder is given.

Files hold numbers and no text; their names are hashes of all that shapes an entry, so another encoder or a
changed source never meets an old one.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from cases.texts import json_sha256
from storage.private import replacing

MEMORY_BYTES = 256 * 2**20

_READ_FAULTS = (OSError, ValueError, KeyError, EOFError, BadZipFile)

Arrays = Mapping[str, NDArray[Any]]
EntryT = TypeVar("EntryT")


class SourceCache(Generic[EntryT]):
    """Entries by what shapes them. Safe to use from several threads.

    Attributes:
        folder: Where entries are also kept as files; None for memory only.
        computed: Whether an entry had to be computed.
        report: Called with the number of sentences encoded.
    """

    def __init__(
        self,
        pack: Callable[[EntryT], Arrays],
        unpack: Callable[[Arrays], EntryT],
        *,
        memory_bytes: int = MEMORY_BYTES,
        size: Callable[[EntryT], int] | None = None,
    ) -> None:
        """Prepare an empty cache.

        Args:
            pack: Converts an entry to its file's content.
            unpack: Converts back; raises a ValueError or a KeyError for invalid content.
            memory_bytes: Beyond it, entries used longest ago are dropped from memory, all but the last.
            size: Bytes of an entry, if it takes more than its arrays.
        """
        self._pack, self._unpack = pack, unpack
        self.folder: Path | None = None
        self.computed = False
        self.report: Callable[[int], None] = lambda encoded: None
        self._memory_bytes = memory_bytes
        self._size = size or (lambda entry: sum(array.nbytes for array in pack(entry).values()))
        self._entries: OrderedDict[str, tuple[EntryT, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Sequence[str], compute: Callable[[], EntryT]) -> EntryT:
        name = json_sha256(list(key))
        with self._lock:
            if name in self._entries:
                self._entries.move_to_end(name)
                return self._entries[name][0]
        entry = self._read(name)
        if entry is None:
            self.computed = True
            entry = compute()
            self._write(name, entry)
        with self._lock:
            self._entries[name] = (entry, self._size(entry))
            while (
                len(self._entries) > 1
                and sum(size for _, size in self._entries.values()) > self._memory_bytes
            ):
                self._entries.popitem(last=False)
        return entry

    def _read(self, name: str) -> EntryT | None:
        """An entry from its file; None if there is none or it is damaged."""
        if self.folder is None:
            return None
        try:
            # Opened here: of a damaged file numpy would leave its own handle open.
            with (
                (self.folder / f"{name}.npz").open("rb") as file,
                np.load(file, allow_pickle=False) as arrays,
            ):
                return self._unpack(dict(arrays))
        except _READ_FAULTS:
            return None

    def _write(self, name: str, entry: EntryT) -> None:
        """Write a file for its owner only; ignores a cache that cannot be written."""
        if self.folder is None:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replacing(self.folder / f"{name}.npz") as file:
                os.fchmod(file.fileno(), 0o600)
                np.savez(file, allow_pickle=False, **self._pack(entry))
