"""Where data lie: a file or folder of this machine, or a URL of what lies elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from cases.errors import InputError


def parse_place(text: str | Path) -> Path | str:
    """A text as the user wrote it: a URL stays one, and all else is a path."""
    return text if isinstance(text, str) and "://" in text else Path(text)


Place = Annotated[Path | str, PlainValidator(parse_place), PlainSerializer(str)]
"""A path, or a URL as text."""


def local(place: Path | str) -> Path:
    """The path.

    Raises:
        InputError: It is a URL, and only what lies on this machine can be used.
    """
    if isinstance(place, str):
        raise InputError(place, "is a URL", "Name a file or folder of this machine")
    return place
