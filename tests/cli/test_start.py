"""Start-up is quick because nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.evigraph import evigraph

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
    "matplotlib",
    "scipy",
    "jinja2",
)
COMMANDS = (
    ["run"],
    ["resume"],
    ["retry"],
    ["rerun"],
    ["show"],
    ["review"],
    ["submit"],
    ["validate"],
    ["score"],
    ["analyse"],
    ["experiment"],
    ["study"],
    ["export"],
    ["compare"],
    ["view"],
    ["graph"],
    ["rank"],
    ["verify"],
    ["serve"],
    ["bench"],
    ["train"],
    ["models", "list"],
    ["models", "pull"],
    ["demos", "build"],
    ["demos", "add"],
    ["demos", "list"],
    ["demos", "query"],
    ["corpus", "build"],
    ["corpus", "search"],
    ["corpus", "show"],
    ["index", "build"],
    ["index", "search"],
    ["index", "show"],
    ["index", "recall"],
    ["index", "plan"],
)


def test_nothing_heavy_is_imported_at_start_up() -> None:
    code = f"import sys, cli.main; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: list[str]) -> None:
    ended = evigraph(*command, "--help", folder=tmp_path)
    assert ended.code == 0
    assert f"Example: evigraph {' '.join(command)}" in " ".join(ended.out.split())


def test_help_alone(tmp_path: Path) -> None:
    ended = evigraph("--help", folder=tmp_path)
    assert ended.code == 0
    assert "Example: evigraph run tamu" in ended.out
