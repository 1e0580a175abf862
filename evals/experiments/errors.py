"""What is wrong with an experiment, in one line."""

from __future__ import annotations


class ExperimentError(Exception):
    """An experiment that cannot run or go on."""
