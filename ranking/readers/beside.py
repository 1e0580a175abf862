"""Data sets of several files: where the others are."""

from __future__ import annotations

from pathlib import Path

from cases.errors import InputError

_SUFFIXES = (".jsonl", ".jsonl.gz")


def json_lines_named(folder: Path, stem: str) -> list[Path]:
    """The JSON lines of `folder` whose names begin with `stem`, by name."""
    return sorted(
        path
        for path in folder.glob(f"{stem}*")
        if path.name.endswith(_SUFFIXES) and not path.name.startswith(".") and path.is_file()
    )


def the_one_named(folder: Path, stem: str) -> Path:
    """The only such file.

    Raises:
        InputError: There is none, or several.
    """
    found = json_lines_named(folder, stem)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(folder, f"no {stem}*.jsonl or {stem}*.jsonl.gz in this folder", "Put it there")
    names = ", ".join(path.name for path in found)
    raise InputError(folder, f"several {stem} files in this folder: {names}", "Name the one to read")
