"""What commands share to print: consoles, safe text, numbers."""

from __future__ import annotations

import re
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

# Control characters could drive the terminal, and bidirectional overrides could hide what a note says.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def output() -> Console:
    """Results: standard output."""
    return Console(highlight=False, soft_wrap=False)


def messages() -> Console:
    """Progress and remarks: standard error."""
    return Console(stderr=True, highlight=False)


def safe(text: str, style: str = "") -> Text:
    """Text of cases and models: never markup, never control codes."""
    return Text(_UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text), style=style)


def duration(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 07 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    import json

    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
