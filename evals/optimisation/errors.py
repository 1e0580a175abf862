"""What is wrong with an optimisation, in one line."""

from __future__ import annotations


class OptimisationError(Exception):
    """An optimisation that cannot run or go on."""
