"""Progress of a batch: for its watcher, and in a file for other processes."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from serving.protocol.request import Usage
from storage.private import replacing

PROGRESS = "progress.json"
"""Progress of the current session, in its run folder."""


class Pace(NamedTuple):
    """How fast a batch is; `seconds_left` is None until it is known."""

    calls_per_second: float
    tokens_per_second: float
    seconds_left: float | None


@dataclass(slots=True)
class Progress:
    """Progress of a batch; counts of cases include those that ended in earlier sessions.

    Attributes:
        under_way: Cases that have begun and not ended.
        calls_a_case: Calls that a case is expected to take; None where that is not known yet.
        calls_ended: Calls of the cases that ended in this session, replayed ones included.
        away: Calls in batches that have not been harvested.
        max_cost: Cap on the cost of all sessions; None means unlimited.
    """

    total: int
    done: int = 0
    failed: int = 0
    waiting: int = 0
    usage: Usage = field(default_factory=Usage)
    under_way: int = 0
    calls_a_case: float | None = None
    calls_ended: int = 0
    cases_ended: int = 0
    away: int = 0
    earlier_cost: float = 0.0
    max_cost: float | None = None

    @property
    def cost(self) -> float | None:
        """Cost of all sessions; None without prices."""
        return None if self.usage.cost is None else self.earlier_cost + self.usage.cost

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.waiting

    @property
    def calls_left(self) -> float | None:
        """Calls that are still expected; a case under way that has made more than most is expected to end."""
        if self.calls_a_case is None:
            return None
        made = self.usage.calls + self.usage.replayed - self.calls_ended
        unbegun = max(0, self.total - self.ended - self.under_way)
        return unbegun * self.calls_a_case + max(0.0, self.under_way * self.calls_a_case - made)

    @property
    def share(self) -> float:
        """Completed share of the run: in calls if their number is known, else in cases."""
        left = self.calls_left
        if not self.calls_a_case or left is None:
            return self.ended / self.total if self.total else 1.0
        before = max(0, self.ended - self.cases_ended) * self.calls_a_case
        made = before + self.usage.calls + self.usage.replayed
        return made / (made + left) if made + left else 1.0

    def pace(self, seconds: float) -> Pace:
        """Mean pace of the session, `seconds` after it began."""
        usage = self.usage
        calls = usage.calls / seconds if seconds > 0 else 0.0
        tokens = (usage.input_tokens + usage.output_tokens) / seconds if seconds > 0 else 0.0
        left: float | None = None
        if self.calls_a_case and self.calls_left is not None:
            # Of the calls to come, as many are expected to be replayed as of those that were made.
            made = usage.calls + usage.replayed
            left = self.calls_left * seconds / made if made else None
        elif self.cases_ended and self.calls_a_case is not None:
            # No calls at all: an evidence model alone.
            left = (self.total - self.ended) * seconds / self.cases_ended
        return Pace(calls, tokens, left)


_RECENT_S = 60.0


class PaceMeter:
    """Measures a session: rates over the last minute, and the time left at its mean pace."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._readings: deque[tuple[float, int, int]] = deque()

    def read(self, progress: Progress, now: float) -> Pace:
        """The pace at a moment of a monotonic clock; the first reading starts the session."""
        usage = progress.usage
        self._began = now if self._began is None else self._began
        readings = self._readings
        readings.append((now, usage.calls, usage.input_tokens + usage.output_tokens))
        # The oldest reading kept is the last one before the minute began.
        while len(readings) > 2 and now - readings[1][0] >= _RECENT_S:
            readings.popleft()
        (then, *before), (_, *after) = readings[0], readings[-1]
        seconds = max(now - then, 1e-9)
        calls, tokens = ((new - old) / seconds for old, new in zip(before, after, strict=True))
        return Pace(calls, tokens, progress.pace(now - self._began).seconds_left)


class Watcher(Protocol):
    """Shows a batch to a person; called in the event loop, so it must not block."""

    def notify(self, text: str) -> None:
        """One line that is worth reading now."""

    def update(self, progress: Progress) -> None:
        """The counts have changed, or a moment has passed."""


class SilentWatcher:
    """Shows nothing."""

    def notify(self, text: str) -> None:
        pass

    def update(self, progress: Progress) -> None:
        pass


@runtime_checkable
class NodeWatcher(Protocol):
    """Optional interface of a watcher: receives the nodes of a case while it runs."""

    def node(self, case_id: str, known: dict[str, Any]) -> None:
        """A node has begun or ended; `known` is what `CaseTrace.record` returns."""


@dataclass(frozen=True, slots=True)
class Written:
    """Progress of a running session as seen by another process: its counts, and the share of the run."""

    share: float
    under_way: int
    calls: int
    tokens: int
    pace: Pace


def write_progress(path: Path, progress: Progress, pace: Pace) -> None:
    """Write it in one step."""
    usage = progress.usage
    fields = {
        "share": round(progress.share, 4),
        "under_way": progress.under_way,
        "calls": usage.calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        **pace._asdict(),
    }
    with replacing(path) as file:
        file.write(json.dumps(fields).encode() + b"\n")


_STALE_S = 60.0
"""A session that has written nothing for so long was killed, or its machine sleeps."""


def read_progress(folder: Path) -> Written | None:
    """Progress of a run; None if no session is seen to be running."""
    path = folder / PROGRESS
    try:
        if time.time() - path.stat().st_mtime > _STALE_S:
            return None
        fields = json.loads(path.read_bytes())
        pace = Pace(fields["calls_per_second"], fields["tokens_per_second"], fields["seconds_left"])
        return Written(fields["share"], fields["under_way"], fields["calls"], fields["tokens"], pace)
    except (OSError, ValueError, KeyError, TypeError):
        return None
