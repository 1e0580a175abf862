"""Start-up is quick because nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_group

from cli.main import app
from tests.evigraph import evigraph

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "transformers",
    "langgraph",
    "langchain_core",
    "chromadb",
    "qdrant_client",
    "numpy",
    "pydantic",
    "lxml",
    "openai",
    "scipy",
    "matplotlib",
    "pyarrow",
    "jinja2",
    "sacrebleu",
    "rouge_score",
    "fsspec",
    "s3fs",
    "botocore",
)


def _commands(group: TyperGroup, *names: str) -> Iterator[list[str]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, *names, name)
        else:
            yield [*names, name]


COMMANDS = list(_commands(get_group(app)))


def test_nothing_heavy_is_imported_for_the_list_of_all_commands() -> None:
    code = (
        "import sys\nfrom cli.main import main\n"
        "try:\n    main()\n"
        f"finally:\n    print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    assert "Run cases" in done.stdout
    assert last == "[]"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: list[str]) -> None:
    ended = evigraph(*command, "--help", folder=tmp_path)
    assert ended.code == 0
    _, _, end = ended.out.rpartition("\n╰")
    assert f"Example: evigraph {' '.join(command)}" in " ".join(end.split())


def test_help_alone(tmp_path: Path) -> None:
    ended = evigraph("--help", folder=tmp_path)
    assert ended.code == 0
    assert ended.out.rstrip().splitlines()[-1].lstrip().startswith("Example: evigraph run tamu")


@pytest.mark.parametrize(
    ("command", "near"), [(["shwo"], "show"), (["models", "lsit"], "list"), (["rnu", "tamu", "a.xml"], "run")]
)
def test_a_typo_gets_the_nearest_command(tmp_path: Path, command: list[str], near: str) -> None:
    ended = evigraph(*command, folder=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.line.endswith(f"; did you mean {near!r}?")


def test_a_command_that_is_like_no_other_gets_them_all(tmp_path: Path) -> None:
    assert evigraph("corpus", "xyzzy", folder=tmp_path).line.endswith("; known: build, search, show")


def test_version_and_short_help(tmp_path: Path) -> None:
    assert evigraph("--version", folder=tmp_path).out == f"evigraph {version('evigraph')}\n"
    assert evigraph("run", "-h", folder=tmp_path).out == evigraph("run", "--help", folder=tmp_path).out


def test_a_flag_is_the_same_wherever_it_stands() -> None:
    of_run = _flags("run")
    for name in ("resume", "retry", "rerun", "experiment"):
        of_other = _flags(name)
        for flag in ("model", "max_connections", "rpm", "max_retries", "timeout", "max_outage", "probe"):
            assert of_other[flag] == of_run[flag]


def _flags(name: str) -> dict[str, tuple[object, ...]]:
    group = get_group(app)
    command = group.get_command(typer.Context(group), name)
    assert command is not None
    return {one.name: (one.opts, one.default, getattr(one, "help", None)) for one in command.params}


@pytest.mark.parametrize("entry", [["-m", "cli.main"], ["-c", "from cli.main import main; main()"]])
def test_no_package_of_the_current_folder_is_imported_instead_of_ours(
    tmp_path: Path, entry: list[str]
) -> None:
    ours = [one.name for one in ROOT.iterdir() if (one / "__init__.py").is_file()]
    assert {"cases", "runs", "prompts", "graph", "nodes", "serving", "evals"} <= set(ours)
    for name in set(ours) - {"cli"}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('the decoy {name} was imported')")
    # The summaries of all commands import all of their modules.
    ended = subprocess.run(
        [sys.executable, *entry, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Run a batch of cases through a graph." in ended.stdout
