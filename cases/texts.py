"""How texts are tidied on their way in and out."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Strip `text` and turn every line break in it, with the blanks around it, into one space."""
    return " ".join(filter(None, (line.strip() for line in text.splitlines())))
