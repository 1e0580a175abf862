"""Prints the tests that cover one file, as arguments of pytest.

    python -m tools.tests_for nodes/evidence/label_evidence.py

They are the test modules that import the file, those with its name, those of its package that import it over
other modules, and those that give a command in it, or one of a few commands that import it. If these are few,
the tests of other packages for the modules that import it are added; without any, the search goes on upwards.
If nothing but commands imports it, because it is loaded by its name or is a service, all tests of its package
are added. The goldens run every system and most commands, so they are always among them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
GOLDENS = "tests/goldens"
FEW = 3


def module_of(path: Path) -> str:
    """The name that a file of the repository is imported by."""
    names = path.with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def importing(module: str) -> set[str]:
    """Test modules that import a module, or modules near to it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    graph = grimp.build_graph(*project["tool"]["mypy"]["packages"], cache_dir=None)
    found: set[str] = set()
    seen, nearest = {module}, {module}
    while nearest and len(found) < FEW:
        nearest = {one for near in nearest for one in graph.find_modules_that_directly_import(near)} - seen
        seen |= nearest
        found |= {one for one in nearest if _is_test(one)}
    own = f"tests.{module.partition('.')[0]}."
    over_others = {one for one in graph.find_downstream_modules(module) if one.startswith(own)}
    importers = graph.find_modules_that_directly_import(module)
    if own != "tests.cli." and all(one.startswith(("tests.", "cli.")) for one in importers):
        # Systems, providers and benchmarks are loaded by their names, and services are started by a command.
        over_others |= _mirrored(module, graph.modules)
    commands = [one for one in importers if one.startswith("cli.")]
    if len(commands) <= FEW:
        over_others |= {module_of(test) for one in commands for test in giving(Path(*one.split(".")))}
    return found | {one for one in over_others if _is_test(one)}


def giving(command: Path) -> set[Path]:
    """Tests of `tests/cli` that give a command of a module, whose path has no suffix here."""
    text = ROOT.joinpath(command).with_suffix(".py").read_text("utf-8")
    functions = re.findall(r"^def ([a-z]\w*)", text, re.MULTILINE)
    names = "|".join(name.replace("_", "-") for name in {command.stem, *functions})
    given = re.compile(rf'"({names})"')
    tests = (ROOT / "tests" / "cli").rglob("test_*.py")
    return {one.relative_to(ROOT) for one in tests if given.search(one.read_text("utf-8"))}


def _mirrored(module: str, modules: Iterable[str]) -> set[str]:
    """Modules of the tests that are named as a module's package, or as the next one above it that has any."""
    folders = module.split(".")[:-1]
    while folders and not ROOT.joinpath("tests", *folders).is_dir():
        folders.pop()
    package = ".".join(["tests", *folders, ""])
    return {one for one in modules if folders and one.startswith(package)}


def _is_test(module: str) -> bool:
    return module.rpartition(".")[2].startswith("test_")


def tests_for(path: Path) -> list[str]:
    """Test files and folders, relative to the repository.

    Raises:
        ValueError: The file is not in the repository.
    """
    if not (ROOT / path).is_file():
        raise ValueError(f"{path}: not a file of the repository")
    if path.parts[0] == "tests" and path.name.startswith("test_"):
        return [str(path)]
    tests = {one.relative_to(ROOT) for one in (ROOT / "tests").rglob("test_*.py")}
    found = {one for one in tests if path.stem in (one.stem.removeprefix("test_"), one.stem)}
    if path.suffix == ".py":
        found |= {Path(*one.split(".")).with_suffix(".py") for one in importing(module_of(path))}
    else:
        # A prompt, a recipe, a page or a style: files that name it.
        named = re.compile(rf"\b{re.escape(path.stem)}\b")
        found |= {one for one in tests if named.search((ROOT / one).read_text("utf-8"))}
    if path.parts[0] == "cli":
        found |= giving(path.with_suffix(""))
    return [*sorted(str(one) for one in found if not str(one).startswith(GOLDENS)), GOLDENS]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name a file: make for F=nodes/evidence/label_evidence.py")
    try:
        sys.stdout.write("\n".join(tests_for(Path(sys.argv[1]))) + "\n")
    except ValueError as error:
        sys.exit(str(error))
