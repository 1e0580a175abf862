"""Versions of prompts for tests: the packaged default with one file changed."""

from __future__ import annotations

import shutil
from pathlib import Path

DEFAULT = Path(__file__).parents[2] / "prompts" / "default"


def changed(folder: Path, name: str, text: str) -> str:
    """The default version, but for one file; its name for `load_prompts`."""
    version = folder / "version"
    shutil.copytree(DEFAULT, version)
    (version / f"{name}.yaml").write_text(text, "utf-8")
    return str(version)


def replaced(folder: Path, name: str, old: str, new: str) -> str:
    """The default version with a piece of one file replaced."""
    text = (DEFAULT / f"{name}.yaml").read_text("utf-8")
    assert old in text
    return changed(folder, name, text.replace(old, new))
