"""Tokens and cost of all sessions of a run, those included that were killed before they could record them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from runs.record.folder import CALLS
from runs.record.manifest import Manifest, Session
from serving.journal.journal import Journal, JournalError
from serving.protocol.budget import Prices, Spend


def stored_spend(stored: Mapping[str, tuple[int, int, int]], prices: Prices) -> Spend:
    """Tokens and cost of calls, from what those of each model read, wrote and had cached."""
    return Spend(
        sum(read + written for read, written, _ in stored.values()),
        sum(prices[model].cost(*counts) for model, counts in stored.items() if model in prices),
    )


def count_killed(sessions: Sequence[Session], journal: Journal, prices: Prices) -> None:
    """Record for the last of these sessions, if it was killed, what the journal has beyond the earlier ones.

    A retry replaces rejected replies in the journal, so this may be slightly less than the session's use, and
    never more.
    """
    if not sessions or sessions[-1].finished is not None:
        return
    *earlier, killed = sessions
    stored = journal.tokens()
    totals = {
        "calls": journal.count(),
        "input_tokens": sum(read for read, _, _ in stored.values()),
        "output_tokens": sum(written for _, written, _ in stored.values()),
        "cached_tokens": sum(cached for _, _, cached in stored.values()),
    }
    for name, total in totals.items():
        setattr(killed, name, max(0, total - sum(getattr(one, name) for one in earlier)))
    if prices:
        cost = stored_spend(stored, prices).cost - sum(one.cost or 0.0 for one in earlier)
        killed.cost = max(0.0, cost)


def with_unrecorded(path: Path, manifest: Manifest) -> Manifest:
    """A copy with the use of a session that is running or was killed, as far as its journal has it."""
    calls = path / CALLS
    # A journal that several runs share does not say whose calls it has.
    if not manifest.sessions or manifest.sessions[-1].finished is not None or calls.is_symlink():
        return manifest
    found = manifest.model_copy(deep=True)
    with contextlib.suppress(JournalError, sqlite3.Error, OSError):
        if calls.is_file():
            with contextlib.closing(Journal(calls, read_only=True)) as journal:
                count_killed(found.sessions, journal, manifest.budget.prices)
    return found
