"""What is wrong with a study, in one line."""

from __future__ import annotations


class StudyError(Exception):
    """A study that cannot run or go on."""
