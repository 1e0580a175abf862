"""What a recipe can set for answers from dated literature (Vladika and Matthes 2024)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LiteratureSettings(_Section):
    """Which documents are found, and which of them may be evidence."""


class ReadingSettings(_Section):
    """What is read of each document, and by whom."""


class VerdictSettings(_Section):
    """How readings become an answer."""
