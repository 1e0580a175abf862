"""A batch of cases: run folder, scheduler, resume, retry."""

from runs.folder import RunFolder
from runs.manifest import RunError
from runs.reading import Run, open

__all__ = ("Run", "RunError", "RunFolder", "open")
