"""The error of calibrations, apart from them so that the command line need not import numpy to know it."""


class CalibrationError(Exception):
    """Cases, a run or a wish that nothing can be calibrated by, in one line."""
