"""Faults of input files, in one line."""

from __future__ import annotations

import difflib
from pathlib import Path

from storage.url_names import with_urls


class InputError(Exception):
    """An input that cannot be used: names the file, the place, the fault and the remedy."""

    def __init__(self, path: object, fault: str, remedy: str = "") -> None:
        self.path = with_urls(str(path))
        self.fault = with_urls(fault)
        self.remedy = with_urls(remedy)
        super().__init__(": ".join([self.path, self.fault]) + (f". {self.remedy}" if remedy else ""))


def missing(path: Path) -> InputError:
    """The error of a path that is not there; proposes the nearest name in its folder."""
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    remedy = f"Did you mean {path.with_name(near[0])}?" if near else ""
    return InputError(path, "no such file or folder", remedy)
