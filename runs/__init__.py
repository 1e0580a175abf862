"""A batch of cases: run folder, scheduler, resume, retry."""

from runs.folder import RunFolder
from runs.manifest import RunError

__all__ = ("RunError", "RunFolder")
