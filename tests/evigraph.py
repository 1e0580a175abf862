"""Runs the command line as a user does: another process, its exit code, its two streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-c", "from cli.main import main; main()"]

LEXICAL_RECIPE = """\
system: tamu
embedding: lexical:256
evidence: {demonstrations: 1, votes: 3, threshold: 2}
answer: {demonstrations: 1}
"""
"""Small, and without weights."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        """The object that `--json` printed; fails if there is anything else on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def line(self) -> str:
        """The one line of an error; fails if there are more."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("evigraph: ")]
        assert "Traceback" not in self.err
        return line.removeprefix("evigraph: ")


def evigraph(
    *arguments: str | Path, folder: Path, environment: Mapping[str, str] | None = None, timeout: float = 120
) -> Ended:
    """Run a command in a folder."""
    ended = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def write_cases(path: Path, count: int, sentences: int = 6) -> Path:
    """Plain JSONL cases `k0`, `k1`, ..."""
    lines = [
        json.dumps(
            {
                "case_id": f"k{number}",
                "narrative": f"I still think about number {number}. Why was it done?",
                "question": f"Why was procedure {number} done?",
                "sentences": [
                    f"Sentence {s} of note {number} on procedure {number * s}." for s in range(sentences)
                ],
            }
        )
        for number in range(count)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_recipe(folder: Path) -> Path:
    """The lexical recipe as a file."""
    path = folder / "lexical.yaml"
    path.write_text(LEXICAL_RECIPE)
    return path
