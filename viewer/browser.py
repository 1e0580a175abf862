"""Opens the page in the user's browser, without showing its key to other users of the machine."""

from __future__ import annotations

import html
import os
import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path


def has_display() -> bool:
    """Whether a browser could open a window here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_page(link: str) -> Path | None:
    """Open a link by way of a file that only this user can read.

    The arguments of a browser are visible to everybody on the machine, and the key is in the link.

    Returns:
        The folder of that file, for `forget`; None where no browser was found.
    """
    folder = Path(tempfile.mkdtemp(prefix="evigraph-view-"))
    file = folder / "open.html"
    refresh = f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">'
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8">{refresh}', "utf-8")
    if webbrowser.open(file.as_uri()):
        return folder
    forget(folder)
    return None


def forget(folder: Path | None) -> None:
    """Remove what `open_page` has made."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
