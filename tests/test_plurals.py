"""No text says "1 cases": a number before a noun goes through `plural`, in code and on pages."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
COUNTED = (
    *("answer", "call", "candidate", "case", "cell", "citation", "demonstration", "difference", "document"),
    *("example", "file", "group", "label", "line", "link", "passage", "question", "reviewer", "row", "run"),
    *("sentence", "session", "snippet", "step", "time", "token", "vote", "word"),
)
NOUN = rf"(?:(?:{'|'.join(COUNTED)})s|entries|queries)\b"

NEVER_ONE = frozenset(
    {
        # Limits above 1 and means, too few of something, and verbs.
        *(
            "storage/files.py: times",
            "cases/submissions/bioasq.py: words",
            "cases/submissions/texts.py: words",
        ),
        *("evals/metrics/medcon.py: words", "evals/optimisation/instructions.py: words"),
        *(
            "cli/measuring/calibrate.py: calls",
            "cli/measuring/calibrate.py: tokens",
            "evals/search/report.py: documents",
        ),
        *("cases/submissions/archehr.py: entries", "cases/submissions/bioasq.py: entries"),
        "nodes/retrieval/retrieve_documents.py: queries",
        *(
            "cases/formats/json_lines.py: files",
            "evals/bench/live.py: answers",
            "nodes/evidence/settings.py: runs",
        ),
        *("ranking/examples.py: groups", "ranking/rankers/logistic.py: groups"),
        "serving/backends/openai_compatible.py: answers",
        *(
            "serving/batches/providers/__init__.py: answers",
            "serving/batches/providers/anthropic.py: answers",
        ),
        *(
            "serving/batches/providers/google_genai.py: answers",
            "serving/batches/providers/openai.py: answers",
        ),
        "serving/batches/providers/json_lines.py: lines",
        "weights/gguf_file.py: tokens",
        *(
            "nodes/core/fitting.py: tokens",
            "nodes/evidence/check_votes.py: labels",
            "cli/running/purge.py: runs",
            "api/bodies.py: entries",
        ),
    }
)


def written(path: Path) -> Iterator[str]:
    """Each noun that follows a number in a text with values."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            found = re.match(rf" ({NOUN})", str(text.value))
            # A quoted text is not a number: "case 'a' runs" has a verb.
            if found and value.conversion != ord("r"):
                yield found[1]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_number_stands_before_a_plural_in_code(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {noun}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for noun in written(path)
    }
    assert found - NEVER_ONE == set()


@pytest.mark.parametrize("folder", ["viewer/templates", "evals/pages/templates"])
def test_no_number_stands_before_a_plural_on_a_page(folder: str) -> None:
    found = [
        f"{path.name}: {place[0]}"
        for path in sorted((ROOT / folder).glob("*.html"))
        for place in re.finditer(rf"\}}\}} {NOUN}", path.read_text("utf-8"))
    ]
    # Said of nodes that ran more than once.
    often = ["ask_run.html: }} times", "case_graph.html: }} times"]
    assert found == (often if folder.startswith("viewer") else [])


def test_nothing_recorded_counts_one_of_many() -> None:
    counted = re.compile(rf"(?<![\d.,:/-])1 {NOUN}(?! \d)")
    found = [
        f"{path.relative_to(ROOT)}: {place[0]}"
        for pattern in ("trace.jsonl", "*.html", "*.txt")
        for path in sorted((ROOT / "tests" / "goldens").rglob(pattern))
        for place in counted.finditer(path.read_text("utf-8"))
    ]
    assert found == []
