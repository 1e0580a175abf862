"""Names of copied objects in messages and records: their URL, not the copy's path."""

from __future__ import annotations

import re
from pathlib import Path

_folders: list[tuple[str, re.Pattern[str]]] = []


def call_by_url(folder: Path) -> None:
    """Name files in a folder, below their protocol's name, by URL from now on."""
    _folders.append((str(folder), re.compile(re.escape(str(folder)) + "/([a-z][a-z0-9+.-]*)/")))


def with_urls(text: str) -> str:
    """A text in which every path of a copy is its URL."""
    for folder, pattern in _folders:
        if folder in text:
            text = pattern.sub(_beginning, text)
    return text


def _beginning(found: re.Match[str]) -> str:
    # `file` paths have no host.
    return f"{found[1]}://" + "/" * (found[1] == "file")


def name_of(path: Path) -> str:
    """A path as text, and of a copy its URL."""
    return with_urls(str(path))
