"""Style sheets and scripts, read once: what a request names is a key to look up, never a path."""

from __future__ import annotations

from functools import cache
from importlib import resources

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Content and media type of each file of `viewer/assets`, by its name."""
    found = {}
    for file in (resources.files("viewer") / "assets").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None and file.is_file():
            found[file.name] = (file.read_bytes(), kind)
    return found
