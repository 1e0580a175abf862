"""Calls of a run that are in batches, read from its journal without requests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cases.texts import quoted
from runs.record.elsewhere import elsewhere
from runs.record.folder import CALLS
from serving.journal.batches import BatchRecord
from serving.journal.journal import Journal


@dataclass(frozen=True, slots=True)
class AwayBatch:
    """A batch that is not over.

    Attributes:
        id: The provider's; empty where it is not known whether the provider took it.
        done: Requests that the provider says it has answered, when it was last asked.
        age: Seconds since it was submitted, by this machine's clock.
        left: Seconds until it expires; None where that is not known.
    """

    id: str
    endpoint: str
    model: str
    state: str
    calls: int
    requests: int | None
    done: int | None
    age: float
    left: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Away:
    """All of a run.

    Attributes:
        batches: Those that are not over, oldest first.
        rows: What became of the rows of those, by outcome.
        failures: Calls that failed in a batch and wait for a retry, by error class.
    """

    batches: tuple[AwayBatch, ...] = ()
    ended: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.batches)

    def next_command(self, run: Path) -> str:
        """Command that continues the run."""
        written = elsewhere(run)
        return f"evigraph resume {quoted(run)}" if written is None else written.resume_command(run)


def away_batches(run: Path) -> Away:
    """Calls in batches.

    Raises:
        JournalError: The journal cannot be read.
    """
    if not (run / CALLS).exists():
        return Away()
    journal = Journal(run / CALLS, read_only=True)
    try:
        records = journal.batches.records()
        failures = journal.batches.failures()
    finally:
        journal.close()
    rows: Counter[str] = Counter()
    for record in records:
        rows.update(record.counts)
    open_ = [record for record in records if record.state in ("intended", "away")]
    return Away(tuple(map(_batch, open_)), len(records) - len(open_), rows, failures)


def _batch(record: BatchRecord) -> AwayBatch:
    remote = record.remote
    age = max(0.0, time.time() - (record.submitted or record.intended))
    left = None
    if remote.get("expires") is not None and remote.get("created") is not None:
        # Both are by the provider's clock, which may be another than ours.
        left = max(0.0, remote["expires"] - remote["created"] - age)
    return AwayBatch(
        id=record.remote_id,
        endpoint=record.endpoint,
        model=record.model,
        state="intended" if record.state == "intended" else str(remote.get("state", "running")),
        calls=record.away,
        requests=remote.get("requests"),
        done=remote.get("done"),
        age=age,
        left=left,
    )
