"""The documentation as a site: built without a network, every link checked, the reference complete."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_group

from cli.looking.recipes import explain
from cli.main import app
from graph.recipe import load_recipe
from graph.system import find_system, systems
from tests.goldens import outputs
from tools import site
from tools.reference import CASE_FIELDS, TRACE_FIELDS, commands, recipes, run_fields

GOLDENS = Path(outputs.__file__).parent
RESOURCE = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would ask another machine is sent to a port that nobody listens on."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")


@pytest.mark.slow
@pytest.mark.usefixtures("away")
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = site.build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.stem for page in (site.ROOT / "docs").glob("*.md")} | {"index", "changelog"}
    built = tmp_path / "site"
    assert pages <= {page.stem for page in built.glob("*.html")}
    assert {page.stem for page in (built / "reference").glob("*.html")} == {
        "commands",
        "recipes",
        "run-fields",
    }
    listed = (built / "index.html").read_text("utf-8")
    assert all(f'/{name}.html"' in listed for name in pages - {"index"}), "missing in nav of mkdocs.yml"
    for page in built.rglob("*.html"):
        assert not RESOURCE.search(page.read_text("utf-8")), page


@pytest.mark.slow
@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("target", ["nowhere.md", "models.md#nowhere"])
def test_a_broken_link_fails_the_build(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = site.write_sources

    def with_broken_link(folder: Path) -> None:
        write(folder)
        (folder / "cases.md").write_text(f"# Cases\n\n[a page]({target})\n", "utf-8")

    monkeypatch.setattr(site, "write_sources", with_broken_link)
    done = site.build(tmp_path)
    assert done.returncode != 0 and "cases.md" in done.stdout + done.stderr


def _paths(command: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        return [pair for below in command.commands.values() for pair in _paths(below, f"{name} {below.name}")]
    return [(name, command)]


def test_the_reference_has_every_command_and_option_with_its_meaning() -> None:
    page = commands()
    for name, command in _paths(get_group(app), "evigraph"):
        heading = re.search(rf"^#+ {re.escape(name)}$(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
        assert heading, name
        for one in command.params:
            if getattr(one, "hidden", False) or one.name in ("help",):
                continue
            shown = one.opts[0] if one.param_type_name == "option" else (one.metavar or one.name.upper())
            assert shown in heading[1], (name, shown)
    assert not re.search(r"^\| `[^|]+` \|\s*\|$", page, re.MULTILINE), "an option without a meaning"


def test_the_reference_explains_every_field_of_every_recipe() -> None:
    page = recipes()
    for name in systems():
        for field in explain(load_recipe(name)):
            assert field.meaning, (name, field.name)
            assert f"| `{field.name}` |" in page


def test_the_reference_has_every_field_of_runs() -> None:
    page = run_fields()
    for name in systems():
        system = find_system(name)
        for key in (*system.results, *system.flags, *(node.name for node in system.nodes)):
            assert f"`{key}`" in page, key
    for lines in GOLDENS.rglob("cases.jsonl"):
        results = {key for name in systems() for key in find_system(name).results}
        for line in lines.read_text("utf-8").splitlines():
            assert json.loads(line).keys() <= {*CASE_FIELDS, *results}, lines
    executions = [
        json.loads(line)
        for path in GOLDENS.rglob("trace.jsonl")
        for line in path.read_text("utf-8").splitlines()
        if '"__end__"' not in line
    ]
    assert executions and all(line.keys() <= TRACE_FIELDS.keys() for line in executions)
    assert {key for line in executions for key in line} == TRACE_FIELDS.keys()
