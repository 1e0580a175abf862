"""Wording that readers of the docs, the help and the docstrings stumble over, each with a plain form."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"][
    "targets"
]["wheel"]["packages"]
ADVICE = {
    r"\b[Ww]hoever\b": "name the person: 'the reviewer', 'anyone who'",
    r"\b[Ww]hat (?:is true|came|becomes|was said)\b": "use a noun: 'the declaration', 'the outcome'",
    r"\bWhat (?:it|they|a|an|the) [a-z-]+ (?:is|are|holds?|says?|gives?|has)\b": "use a noun",
    r"\bstands? (?:twice|beside)\b": "'is repeated', 'is next to'",
    r"\bstands? in for\b": "'replaces'",
    r"\bof (?:its|their) own\b": "'its own X', 'a separate X'",
    r"\bbeside\b": "'next to', 'in addition to'",
    r"\bis that of\b": "repeat the noun, or use a genitive",
    r"\bnothing but\b": "'only'",
    r"\bgoes? on with\b": "'continues with'",
    r"\bgoes on\b": "'continues'",
    r"\bgo on where\b": "'resume'",
    r"\bbroken off\b": "'interrupted'",
    r"\bfor want of\b": "'for lack of'",
    r"\bis no (?!longer|more)[a-z]+\b": "'is not a X'",
    r"\bare no (?!longer|more)[a-z]+\b": "'are not X'",
    r"\bgives? no [a-z]+\b": "'does not return X'",
    r"\bThere is no such\b": "'X is unknown', 'X not found'",
    r"\bheld against\b": "'compared with'",
    r"\bsuch as it is\b": "drop it, or say how it is limited",
    r"\bas it stands\b": "'unchanged'",
    r"\bas they stand\b": "'unchanged'",
    r"\bis under way\b": "'is running'",
    r"\bsays so\b": "'reports it'",
    r"\bparted by\b": "'separated by'",
    r"\btells? apart\b": "'distinguish'",
    r"\bin the place of\b": "'instead of'",
    r"\bturns out to be\b": "'is'",
    r"\bcame of\b": "'the result of'",
    r"\bis made of\b": "'consists of', 'is computed from'",
}
HELP = ("help", "description", "summary")
_ANY = re.compile("|".join(ADVICE))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines for readers: of Markdown outside of code, of Python the docstrings and help texts."""
    lines = path.read_text("utf-8").splitlines()
    if path.suffix == ".md":
        fenced = False
        for number, line in enumerate(lines, 1):
            fenced ^= line.startswith("```")
            if not fenced:
                yield number, re.sub(r"`[^`]*`", "", line)
        return
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg in HELP):
            text = node.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                for offset in range((text.end_lineno or text.lineno) - text.lineno + 1):
                    yield text.lineno + offset, lines[text.lineno + offset - 1]


def faults(paths: list[Path]) -> list[str]:
    """Each place with its advice."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {found[0]!r}: {advice}"
        for path in paths
        for number, line in prose(path)
        if _ANY.search(line)
        for pattern, advice in ADVICE.items()
        if (found := re.search(pattern, line))
    ]


@pytest.mark.parametrize("folder", [*PACKAGES, "docs", "."])
def test_prose_is_plain_english(folder: str) -> None:
    if folder in PACKAGES:
        paths = sorted((ROOT / folder).rglob("*.py"))
    else:
        paths = sorted((ROOT / folder).glob("*.md"))
    found = faults(paths)
    assert paths and not found, "\n".join(found)


def test_each_advice_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "a.md").write_text("It is next to it.\n```\nbeside\n```\nA `beside` is beside it.\n", "utf-8")
    (tmp_path / "b.py").write_text('"""What came of it."""\nx = "nothing but a value"\n', "utf-8")
    (one, *others) = faults([tmp_path / "a.md", tmp_path / "b.py"])
    assert one == "a.md:5: 'beside': 'next to', 'in addition to'"
    assert others and all(line.startswith("b.py:1: ") for line in others)
