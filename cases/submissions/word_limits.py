"""Word limits of the text tasks, counted and cut as each year's scorer does. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from cases.submissions.prediction import Task

WORD_LIMITS: Mapping[Task, int] = {"2025": 75, "2026-1": 15, "2026-3": 75}
"""Most words that are scored; the others are cut off without an error."""


def words(text: str, task: Task) -> list[str]:
    """Words by the scorer's count: in 2025 single spaces part them, in 2026 any white space."""
    return [word for word in text.split(" ") if word.strip()] if task == "2025" else text.split()


def cut(text: str, task: Task) -> str:
    """Keep the words within the limit. Only a text that is too long has its white space changed."""
    counted = words(text, task)
    limit = WORD_LIMITS[task]
    return " ".join(counted[:limit]) if len(counted) > limit else text
