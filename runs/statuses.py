"""How a case of a run can have ended; one that waits for a person goes on after a review."""

from __future__ import annotations

DONE, FAILED, WAITING = "done", "failed", "waiting"
