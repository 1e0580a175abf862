"""Wakes the streams of a run when it has something new; runs go on in one thread, streams in another."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from api.offer import Limits
from api.problems import Refused
from cases.texts import plural

_RETRY_AFTER = {"Retry-After": "5"}
MAX_STEPS = 500
"""Steps kept per run for late or slow readers; decisions later cover older ones."""


class Listener:
    """Unsent events of one stream."""

    def __init__(self, steps: Iterable[dict[str, Any]]) -> None:
        self.steps: deque[dict[str, Any]] = deque(steps, maxlen=MAX_STEPS)
        self.news = asyncio.Event()


class Hub:
    """All streams, by run. Any thread may call `tell` and `forget`; only the streams' loop calls the rest."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}
        self._steps: dict[str, deque[dict[str, Any]]] = {}
        self._places: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    @property
    def streams(self) -> int:
        return self._places.total()

    @contextmanager
    def place(self, caller: str, limits: Limits) -> Iterator[None]:
        """Hold a place for a stream of a caller, from before its answer begins until it has ended.

        Raises:
            Refused: There is none, or the caller has as many as one may have.
        """
        if self.closed or self.streams >= limits.streams:
            raise Refused(503, "no further stream can be served now", headers=_RETRY_AFTER)
        if self._places[caller] >= limits.streams_each:
            raise Refused(429, f"{plural(limits.streams_each, 'stream')} open already", headers=_RETRY_AFTER)
        self._places[caller] += 1
        try:
            yield
        finally:
            self._places[caller] -= 1
            self._places += Counter()

    @contextmanager
    def listening(self, run: str) -> Iterator[Listener]:
        """Hear of a run, from the latest steps of its session on."""
        self._loop = asyncio.get_running_loop()
        with self._lock:
            listener = Listener(self._steps.get(run, ()))
            self._listeners.setdefault(run, set()).add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners[run].discard(listener)
                if not self._listeners[run]:
                    del self._listeners[run]

    def tell(self, run: str, step: dict[str, Any] | None = None) -> None:
        """The run has written something, or a node of it has begun or ended."""
        with self._lock:
            if step is not None:
                self._steps.setdefault(run, deque(maxlen=MAX_STEPS)).append(step)
            listeners = tuple(self._listeners.get(run, ()))
        if self._loop is not None and listeners:
            self._loop.call_soon_threadsafe(_wake, listeners, step)

    def forget(self, run: str) -> None:
        with self._lock:
            self._steps.pop(run, None)

    def close(self) -> None:
        """End all streams; their clients reconnect and continue where they were. Any thread may call it."""
        self.closed = True
        for run in [*self._listeners]:
            self.tell(run)


def _wake(listeners: Iterable[Listener], step: dict[str, Any] | None) -> None:
    for listener in listeners:
        if step is not None:
            listener.steps.append(step)
        listener.news.set()
