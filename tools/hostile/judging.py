"""What must hold of a command, whatever it was given."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.hostile.worker import Ended

csv.field_size_limit(1 << 30)

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What drives a terminal, or makes a text read as another one."""

SECRET = "the-words-of-another-file"  # noqa: S105 - planted, so that outputs can be searched for it

LIMIT_S = 240.0
"""Of a command, on a machine that has other work; most take less than a second where it has none."""
MAX_PROCESSOR_S = 20.0
MAX_MEGABYTES = 700
MAX_LINES, MAX_LETTERS = 12, 4000
"""Of an error: usage and its reason in a box are eight lines."""

_WRITTEN = (".html", ".svg", ".csv", ".md")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one input.

    Attributes:
        kind: Which file, server or request it was.
        trick: What was wrong with it.
        end: `refused`, `failed in part` or `taken`.
        faults: What must not have happened.
    """

    kind: str
    trick: str
    end: str
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class Found:
    """Faults, each of them said once."""

    faults: list[str] = field(default_factory=list)

    def add(self, fault: str) -> None:
        """Keep a fault, once."""
        if fault not in self.faults:
            self.faults.append(fault)


def end_of(ended: Ended) -> str:
    """In words."""
    return {0: "taken", 1: "failed in part"}.get(ended.code if ended.code is not None else -1, "refused")


def judge_command(ended: Ended, marker: str, found: Found) -> None:
    """Exit code, time, memory, and both streams."""
    words = " ".join(ended.words)[:160]
    if ended.code is None:
        found.add(f"{words!r}: no end within {ended.seconds:.0f} s, or died")
        return
    for fault in _cost_faults(ended):
        found.add(f"{words!r}: {fault}")
    for name, content in (("output", ended.out), ("error", ended.err)):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            found.add(f"{words!r}: {name} is not UTF-8")
            continue
        for fault in _text_faults(text, marker):
            found.add(f"{words!r}: {name}: {fault}")
    error = ended.err.decode(errors="replace")
    if ended.code == 2:
        lines = [line for line in error.splitlines() if line.strip()]
        if len(lines) > MAX_LINES or len(error) > MAX_LETTERS:
            found.add(
                f"{words!r}: an error of {len(lines)} lines and {len(error):,} letters: {error[:300]!r}"
            )
        if not lines:
            found.add(f"{words!r}: no reason for exit code 2")
    if "--json" in ended.words and ended.code == 0:
        try:
            json.loads(ended.out)
        except ValueError:
            found.add(f"{words!r}: no JSON: {ended.out[:200]!r}")


def _cost_faults(ended: Ended) -> Iterator[str]:
    if ended.code not in (0, 1, 2):
        yield f"exit code {ended.code}"
    if ended.processor_s > MAX_PROCESSOR_S:
        yield f"{ended.processor_s:.0f} s of processor time"
    if ended.megabytes > MAX_MEGABYTES:
        yield f"{ended.megabytes:,.0f} MB"


def _text_faults(text: str, marker: str) -> Iterator[str]:
    for words in ("Traceback", "internal error", "Warning: ", "Exception ignored", "never awaited"):
        if words in text:
            start = text.index(words)
            yield f"{words}: {text[start : start + 400]!r}"
    if match := UNSAFE.search(text):
        around = text[max(0, match.start() - 60) : match.end() + 60]
        yield f"U+{ord(match[0]):04X} raw: {around!r}"
    if SECRET in text:
        yield "the words of another file"
    if f"{marker}49" in text:
        yield "a template was filled"


def judge_files(before: set[Path], base: Path, work: Path, marker: str, found: Found) -> None:
    """New files below `base`; outside of `work` there must be none."""
    for path in sorted(set(base.rglob("*")) - before):
        if not path.is_relative_to(work):
            found.add(f"a file at {path.relative_to(base)}")
        if path.name == "PWNED":
            found.add("a command of a file was run")
        if path.is_file() and path.suffix in _WRITTEN:
            _judge_written(path, marker, found)
    for place in (Path("/tmp") / marker, Path("/") / marker, Path.home() / marker):  # noqa: S108
        if place.exists():
            found.add(f"a file at {place}")


def _judge_written(path: Path, marker: str, found: Found) -> None:
    text = path.read_text("utf-8", "replace")
    if SECRET in text or f"{marker}49" in text:
        found.add(f"{path.suffix}: content of another file, or a filled template")
    if path.suffix in (".html", ".svg"):
        for fault in markup_faults(text, marker):
            found.add(f"{path.suffix}: {fault}")
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            for row in csv.reader(file):
                for cell in row:
                    if marker in cell and cell.startswith(("=", "+", "-", "@", "\t", "\r")):
                        found.add(f".csv: a formula: {cell[:60]!r}")


def markup_faults(page: str, marker: str) -> Iterator[str]:
    """Texts that have become markup of a page, or drive a terminal that shows it."""
    for raw in (f"<script>alert('{marker}", f"<img src=x onerror={marker}", f"\"' onmouseover={marker}"):
        if raw in page:
            yield f"raw markup {raw!r}"
    if f'href="javascript:{marker}' in page:
        yield "a link that runs a script"
    if match := UNSAFE.search(page.replace("\r\n", "\n")):
        yield f"U+{ord(match[0]):04X} raw: {page[max(0, match.start() - 60) : match.end() + 60]!r}"
