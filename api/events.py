"""Progress of a run as server-sent events: decisions from its trace, and steps while they happen.

A decision is on disk before it is sent, and its id is its position: a client that reconnects with the id of
its last event continues after it, even at another process. Steps report at once that a node has begun or
ended; they lack ids, and a new stream begins with the latest of the session, so late clients see current
work. Decisions are final when the case ends.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

from fastapi.sse import ServerSentEvent

from api.hub import Hub
from api.jobs import Job
from runs.record.manifest import RunError
from runs.record.trace_file import Line, Place, TraceFile

_LOOK = 2.0
"""Seconds between looks at a run that another process may be writing."""
_ID = re.compile(r"(\d{1,18})-(\d{1,9})(-end)?")
_AT_ONCE = 64
"""Passes that are read before they are sent."""


class Position(NamedTuple):
    """The last event that was seen.

    Attributes:
        start: Where its pass begins in the trace, in bytes.
        line: Which one of the pass; -1 for none.
        ended: Whether the end of the run was seen after it.
    """

    start: int = 0
    line: int = -1
    ended: bool = False

    @property
    def id(self) -> str:
        return f"{self.start}-{max(0, self.line + 1)}" + ("-end" if self.ended else "")


def position_of(id_: str | None) -> Position:
    """Position to continue from; the beginning for a foreign id."""
    found = _ID.fullmatch(id_ or "")
    if found is None:
        return Position()
    return Position(int(found[1]), int(found[2]) - 1, found[3] is not None)


class State(NamedTuple):
    """State of a run.

    Attributes:
        ended: Whether no more events follow unless somebody resumes it.
        fields: Fields of the last event.
    """

    ended: bool
    fields: dict[str, Any]


Look = Callable[[], State | None]


async def events(job: Job, since: Position, hub: Hub, look: Look) -> AsyncIterator[ServerSentEvent]:
    """All events of a run from a position on, until it ends.

    `look` returns the state of the run, None once the caller may no longer read it; called in a thread.
    """
    position = since
    with hub.listening(job.record.id) as listener:
        while True:
            listener.news.clear()
            # Before the trace is read, so that nothing is written between the last reading and the end.
            state = await asyncio.to_thread(look)
            if state is None:
                return
            while listener.steps:
                yield ServerSentEvent(event="step", data=listener.steps.popleft())
            passes = await asyncio.to_thread(_passes, job, position)
            for position, line in passes:
                kind = "case" if line["node"] == "__end__" else "decision"
                yield ServerSentEvent(event=kind, data=line, id=position.id)
            if len({one.start for one, _ in passes}) >= _AT_ONCE:
                continue
            if state.ended:
                yield ServerSentEvent(event="end", data=state.fields, id=position._replace(ended=True).id)
                return
            if hub.closed:
                return
            try:
                await asyncio.wait_for(listener.news.wait(), _LOOK)
            except TimeoutError:
                continue


def has_more(job: Job, since: Position, state: State) -> bool:
    """Whether there is anything to send; a client that has seen the end need not come back."""
    return not (state.ended and since.ended) or bool(_passes(job, since))


def _passes(job: Job, since: Position) -> list[tuple[Position, Line]]:
    """The lines behind a position, of some passes at most."""
    try:
        return list(_read(job, since))
    except RunError:
        # The trace was written anew since the position was taken, or the id was made up.
        return list(_read(job, Position())) if since.start else []
    except OSError:
        return []


def _read(job: Job, since: Position) -> Iterator[tuple[Position, Line]]:
    trace = TraceFile(job.path)
    for count, place in enumerate(trace.places(Place(0, since.start))):
        if count > _AT_ONCE:
            return
        seen = since.line if place.start == since.start else -1
        for index, line in enumerate(trace.read(place)):
            if index > seen:
                yield Position(place.start, index), line
