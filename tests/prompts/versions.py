"""Versions of prompts for tests: the packaged default with one file changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from graph.system import find_system, systems
from prompts import Contract, PromptSet, load_prompts

DEFAULT = Path(__file__).parents[2] / "prompts" / "default"


CONTRACTS: dict[str, Contract] = {
    contract.name: contract for name in systems() for contract in find_system(name).contracts
}
"""Of all prompts of all systems."""

ONE_MESSAGE = str(Path(__file__).parent / "one_message")
"""A folder with three prompts in one message each, which ask for labels in their own words."""


def load_all(version: str) -> PromptSet:
    """Every prompt of a version, whichever system it is for."""
    return load_prompts(version, tuple(CONTRACTS.values()))


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
