"""A batch of cases: run folder, scheduler, resume, retry."""

from runs.record.folder import RunFolder
from runs.record.manifest import RunError
from runs.record.reading import Run, open

__all__ = ("Run", "RunError", "RunFolder", "open")
