"""What vLLM's log says, in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

COMMAND_MARK = "$ "
"""Begins the log's first line, which is the command."""

_TAIL_BYTES = 1 << 18
_LONGEST = 400

# "(EngineCore pid=71) ERROR 11-21 06:38:52 [core.py:1510] "
_PREFIX = re.compile(
    r"^(\([\w .:-]+ pid=\d+\)\s*)?((DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:.]+ \[[^]]*\] ?)?"
)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ERROR = re.compile(r"^([\w.]*(Error|Exception|Interrupt)\b: |\S+: error: )")
_VALIDATION = re.compile(r"^[\w.]*ValidationError: \d+ validation error")
_WORDLESS = re.compile(r"^[\W_]*$")

# It only says that another process has said more.
_POINTER = "Engine core initialization failed"


def last_line(log: Path) -> str:
    """The latest line that says something, without its prefix; empty if there is none yet."""
    return next((line for line in reversed(_tail(log)) if not _WORDLESS.match(line)), "")


def error_line(log: Path) -> str:
    """The latest line that names an error, else the latest line."""
    lines = _tail(log)
    for number in reversed(range(len(lines))):
        line = lines[number]
        if _ERROR.match(line) and _POINTER not in line:
            return _cause(lines, number)[:_LONGEST]
    return last_line(log)[:_LONGEST]


def _cause(lines: Sequence[str], number: int) -> str:
    """The line itself; pydantic says what is wrong only in the line below."""
    if _VALIDATION.match(lines[number]) and number + 1 < len(lines):
        return lines[number + 1]
    return lines[number]


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = (_PREFIX.sub("", _COLOUR.sub("", line)).strip() for line in text.splitlines())
    return [line for line in lines if not line.startswith(COMMAND_MARK)]
