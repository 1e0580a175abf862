"""The folder table of docs/contributing.md against the packages, the import contract, and the imports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
INSTALLED: list[str] = PROJECT["hatch"]["build"]["targets"]["wheel"]["packages"]
PACKAGES = ["benchmarks", *INSTALLED]
LAYERS = [
    package.strip()
    for layer in PROJECT["importlinter"]["contracts"][0]["layers"]
    for package in layer.split("|")
]
ROW = re.compile(r"^\| `(\w+)/` \| (.+) \| (.+) \|$", re.MULTILINE)
TABLE = ROW.findall((ROOT / "docs" / "contributing.md").read_text("utf-8"))
FOLDERS = [folder for folder, _, _ in TABLE]


def below(folder: str) -> set[str]:
    return set(LAYERS[LAYERS.index(folder) + 1 :])


def allowed(folder: str, text: str) -> set[str]:
    if text == "everything below":
        return below(folder)
    return set() if text == "nothing" else set(re.findall(r"`(\w+)`", text))


def test_the_table_names_every_package_in_the_order_of_the_contract() -> None:
    assert FOLDERS == LAYERS
    assert sorted(FOLDERS) == sorted(PACKAGES)
    assert sorted(PROJECT["importlinter"]["root_packages"]) == sorted(PACKAGES)
    assert sorted(PROJECT["mypy"]["packages"]) == sorted([*PACKAGES, "tests", "tools"])


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


@pytest.mark.parametrize(("folder", "text"), [(folder, text) for folder, _, text in TABLE])
def test_a_folder_imports_what_the_table_says(imports: grimp.ImportGraph, folder: str, text: str) -> None:
    assert allowed(folder, text) <= below(folder)
    modules = {folder, *imports.find_descendants(folder)}
    imported = {
        other.split(".")[0]
        for module in modules
        for other in imports.find_modules_directly_imported_by(module)
    }
    assert imported - {folder} <= allowed(folder, text)
