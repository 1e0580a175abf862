"""Scores of rerankers that are kept, so that an evaluation goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cases.errors import InputError
from cases.files import json_bytes
from ranking.ranker import Ranker

_BEGINNING = b'{"key": "'


class ScoreCache:
    """Scores by what they were made from: ranker, query and passages. Without a file nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what a file has, whatever wrote it; a torn last line is dropped.

        Raises:
            InputError: The file holds something else, or cannot be written.
        """
        self._known: dict[str, list[float]] = {}
        self._file: IO[bytes] | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes() if path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            # Checked before anything is changed: the file may be another's.
            self._known = _read(path, whole, content[len(whole) :])
            self._file = path.open("ab", buffering=0)
            self._file.truncate(len(whole))
        except OSError as error:
            raise InputError(path, f"cannot be written: {error.strerror or error}") from error

    def scores(self, ranker: Ranker, query: str, passages: Sequence[str]) -> list[float]:
        """Of every passage, kept ones or new ones."""
        key = hashlib.sha256(json.dumps([ranker.identity, query, list(passages)]).encode()).hexdigest()
        if key not in self._known:
            scores = [float(score) for score in ranker.rank(query, passages).scores]
            self._known[key] = scores
            if self._file is not None:
                self._file.write(json_bytes({"key": key, "scores": scores}))
        return self._known[key]

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()


def _read(path: Path, lines: bytes, torn: bytes) -> dict[str, list[float]]:
    try:
        if not torn.startswith(_BEGINNING[: len(torn)]):
            raise ValueError("no line of ours")
        found = {}
        for line in lines.splitlines():
            fields = json.loads(line)
            found[str(fields["key"])] = [float(score) for score in fields["scores"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, "holds no scores of rerankers", "Choose another file") from error
    return found
