"""Finds run folders, and gives each a short name that is safe in an address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from runs.folder import MANIFEST

_DEPTH = 6
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


def find_runs(roots: Iterable[Path]) -> Iterator[Path]:
    """Every run folder at or below the given ones, forks and runs of experiments too.

    Links to folders are not followed, nor folders entered whose names begin with a dot.
    """
    for root in roots:
        for folder, below, files in os.walk(root):
            path = Path(folder)
            if MANIFEST in files:
                yield path
            depth = len(path.relative_to(root).parts)
            below[:] = sorted(name for name in below if not name.startswith(".")) if depth < _DEPTH else []


def name_runs(paths: Iterable[Path], known: Mapping[str, Path]) -> dict[str, Path]:
    """A name for each path; those that are known already keep theirs.

    A name is made of the last parts of the path, and is a key to look up: no request ever becomes a path.
    """
    by_path = {path: name for name, path in known.items()}
    named: dict[str, Path] = {}
    fresh = []
    for path in paths:
        if path in by_path:
            named[by_path[path]] = path
        else:
            fresh.append(path)
    for path in fresh:
        stem = _stem(path)
        name, number = stem, 1
        while name in named or name in known:
            number += 1
            name = f"{stem}-{number}"
        named[name] = path
    return named


def _stem(path: Path) -> str:
    parts = path.resolve().parts
    # `forks/1` and `seeds/1` say nothing without the run that they belong to.
    kept = parts[-3:] if len(parts) > 3 and parts[-1].isdigit() else parts[-1:]
    return _UNSAFE.sub("-", "-".join(kept)).strip("-")[:80] or "run"
