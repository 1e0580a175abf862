"""Errors that end a command in one line, apart from what raises them: importing them costs nothing."""

from __future__ import annotations


class CalibrationError(Exception):
    """Cases, a run or a request that nothing can be calibrated by."""


class ExperimentError(Exception):
    """An experiment that cannot run or go on."""


class OptimisationError(Exception):
    """An optimisation that cannot run or go on."""
