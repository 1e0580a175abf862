"""No module imports itself by way of others; an import for types alone counts as well."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]


def in_a_circle(imports: Mapping[str, Collection[str]]) -> set[str]:
    """Modules of circles, or between two: what is left once all without imports or importers are gone."""
    left = set(imports)
    while True:
        imported = {other for module in left for other in imports[module]}
        stay = {module for module in left if module in imported and not left.isdisjoint(imports[module])}
        if stay == left:
            return left
        left = stay


def test_a_circle_is_found_and_what_leads_to_it_is_not() -> None:
    imports = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}
    assert in_a_circle(imports) == {"b", "c"}
    assert in_a_circle({"a": ["b"], "b": []}) == set()


def test_no_module_is_in_a_circle_of_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    packages: list[str] = project["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    assert in_a_circle({one: graph.find_modules_directly_imported_by(one) for one in graph.modules}) == set()
