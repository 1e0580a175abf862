"""Errors of rankers that are not faults of the code."""

from __future__ import annotations


class RankerError(Exception):
    """A ranker that cannot be had, or training that cannot be done, in one line that names the remedy."""
