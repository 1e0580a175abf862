"""Small invented data sets in the published formats."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from ranking.examples import Example
from ranking.readers.load import ReaderName, ReaderOptions, load_examples
from storage.errors import InputError


def write_lines(path: Path, *lines: object) -> Path:
    """Write JSON lines, packed where the name says so; texts are written as they are."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def fault(paths: Path | Iterable[Path], reader: ReaderOptions | ReaderName | None = None) -> str:
    """What is said when `paths` cannot be read, which has to be one line."""
    with pytest.raises(InputError) as raised:
        load_examples([paths] if isinstance(paths, Path) else list(paths), reader)
    message = str(raised.value)
    assert "\n" not in message
    return message


def evidence_of(example: Example) -> list[str]:
    """The texts of its positive sentences."""
    labels = example.labels or ()
    return [text for text, label in zip(example.sentences, labels, strict=True) if label]
