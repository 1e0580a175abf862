"""Nodes are named where they are declared and wired, and systems by their recipes: nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from graph.system import find_system, systems

ROOT = Path(__file__).parents[2]
HOMES = ("graph", "nodes", "tests")
PACKAGES = (
    "api",
    "cases",
    "cli",
    "evals",
    "prompts",
    "ranking",
    "retrieval",
    "runs",
    "serving",
    "viewer",
    "weights",
)


def literals() -> Iterator[tuple[str, str]]:
    """File and value of each string constant outside the homes of names."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            # Benches build graphs of their own.
            if not place.startswith("evals/bench/"):
                for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield place, node.value


def test_no_file_names_a_node() -> None:
    names = {node.name for name in systems() for node in find_system(name).nodes}
    found = {place for place, value in literals() if value in names}
    assert sorted(found) == []


def test_no_file_names_a_system() -> None:
    names = set(systems())
    assert sorted({f"{place}: {value}" for place, value in literals() if value in names}) == []
