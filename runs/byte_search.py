"""A search over all bytes of files for any run of 12 characters of given texts.

Texts and files become the hashes of their windows of 12 bytes; no run of 12 characters is shorter. Files
are searched as they are, and as what they hold where they are compressed or a database.
"""

from __future__ import annotations

import html
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WIDTH = 12
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_VARIED = 4
"""Windows in which fewer bytes differ from the next one are no text: blanks, dashes, zeros."""
_SYNTAX = np.isin(np.arange(256), list(b'"{}[]\\'))
_BLANK = np.isin(np.arange(256), list(b" \n\t"))
_LETTER = np.array([bytes([one]).isalpha() or one >= 0x80 for one in range(256)])
_LETTERS = 6
_CHUNK = 4_000_000

Hashes = NDArray[np.uint64]


def windows(text: bytes, *, prose: bool = False) -> Hashes:
    """Hashes of the windows of a text, each once.

    Args:
        text: UTF-8.
        prose: Only windows with a blank, with at least six letters and without the syntax of JSON: what a
            reply or a prompt shares with names of labels and fields, and with lists of ids, is no text.
    """
    content = np.frombuffer(text, np.uint8)
    if len(content) < WIDTH:
        return np.empty(0, np.uint64)
    varied = _within(np.append(content[1:] != content[:-1], [False])) >= _VARIED
    if prose:
        varied &= (_within(_BLANK[content]) > 0) & (_within(_SYNTAX[content]) == 0)
        varied &= _within(_LETTER[content]) >= _LETTERS
    return np.unique(_hashed(content)[varied])


def _within(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of the bytes of each window are marked."""
    sums = np.concatenate([[0], np.cumsum(marks, dtype=np.int64)])
    return np.asarray(sums[WIDTH:] - sums[:-WIDTH])


def _hashed(content: NDArray[np.uint8]) -> Hashes:
    count = len(content) - WIDTH + 1
    found = np.zeros(count, np.uint64)
    for place in range(WIDTH):
        found *= _FACTOR
        found += content[place : place + count]
        found ^= found >> np.uint64(29)
    return found


class Runs:
    """The runs of 12 characters that must not be found."""

    def __init__(self, texts: Iterable[str], prose: Iterable[str] = (), known: Iterable[str] = ()) -> None:
        """Of texts.

        Args:
            texts: Of which every run counts, as it is and as JSON and HTML write it.
            prose: Of which the runs count that are prose.
            known: Texts that stay; what stands in them too is not looked for.
        """
        parts = [windows(one) for text in texts for one in _written(text)]
        parts += [windows(one, prose=True) for text in prose for one in _written(text)]
        found = np.unique(np.concatenate([np.empty(0, np.uint64), *parts]))
        stay = np.concatenate([np.empty(0, np.uint64), *(windows(text.encode()) for text in known)])
        self.hashes: Hashes = np.setdiff1d(found, stay)
        self.common = len(found) - len(self.hashes)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.hashes)

    def places(self, content: bytes) -> int:
        """How many windows of some bytes are among them."""
        found = 0
        for start in range(0, max(1, len(content) - WIDTH + 1), _CHUNK):
            part = np.frombuffer(content[start : start + _CHUNK + WIDTH - 1], np.uint8)
            if len(part) >= WIDTH and len(self.hashes):
                found += int(np.isin(_hashed(part), self.hashes).sum())
        return found


def _written(text: str) -> set[bytes]:
    """A text as files may hold it."""
    ways = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], html.escape(text))
    return {way.encode("utf-8", "replace") for way in ways}


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they hold where it is a gzip or zip file or a database of SQLite.

    Raises:
        OSError: It cannot be read.
    """
    raw = path.read_bytes()
    yield raw
    if raw.startswith(b"\x1f\x8b"):
        yield from _members(raw)
    elif raw.startswith(b"SQLite format 3\0"):
        yield from _cells(path)
    elif raw.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield archive.read(name)


def _members(raw: bytes) -> Iterator[bytes]:
    while raw:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            yield unpacker.decompress(raw)
        except zlib.error:
            return
        raw = unpacker.unused_data


def _cells(path: Path) -> Iterator[bytes]:
    """Every value of every table, deflated ones also as they were."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.text_factory = bytes
        tables = [
            row[0].decode() for row in database.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608
                for value in row:
                    if isinstance(value, bytes):
                        yield value
                        yield from _inflated(value)


def _inflated(value: bytes) -> Iterator[bytes]:
    for bits in (-zlib.MAX_WBITS, zlib.MAX_WBITS):
        try:
            yield zlib.decompress(value, bits)
        except zlib.error:
            continue
