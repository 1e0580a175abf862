"""Wakes the streams of a run when it has something new; runs go on in one thread, streams in another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_STEPS = 500
"""Steps that are kept for a slow reader; of older ones the decisions tell later."""


class Listener:
    """What one stream has not sent yet."""

    def __init__(self) -> None:
        """Nothing so far."""
        self.steps: deque[dict[str, Any]] = deque(maxlen=MAX_STEPS)
        self.news = asyncio.Event()


class Hub:
    """All streams, by run. Any thread may call `tell`, and the loop of the streams everything else."""

    def __init__(self) -> None:
        """Nobody listens."""
        self._listeners: dict[str, set[Listener]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    @property
    def streams(self) -> int:
        """How many streams there are."""
        return sum(map(len, self._listeners.values()))

    @contextmanager
    def listening(self, run: str) -> Iterator[Listener]:
        """Hear of a run."""
        self._loop = asyncio.get_running_loop()
        listener = Listener()
        self._listeners.setdefault(run, set()).add(listener)
        try:
            yield listener
        finally:
            self._listeners[run].discard(listener)
            if not self._listeners[run]:
                del self._listeners[run]

    def tell(self, run: str, step: dict[str, Any] | None = None) -> None:
        """The run has written something, or a node of it has begun or ended."""
        if self._loop is not None and run in self._listeners:
            self._loop.call_soon_threadsafe(self._wake, run, step)

    def close(self) -> None:
        """End all streams; their clients come back and go on where they were. Any thread may call it."""
        self.closed = True
        for run in [*self._listeners]:
            self.tell(run)

    def _wake(self, run: str, step: dict[str, Any] | None) -> None:
        for listener in self._listeners.get(run, ()):
            if step is not None:
                listener.steps.append(step)
            listener.news.set()
