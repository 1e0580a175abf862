"""Connections of the HTTP server: how long one may take to send a request, and how many there may be.

uvicorn closes connections that are idle after an answer, and refuses requests above a number of connections.
It never closes connections that finish no request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from access.descriptors import max_connections

HEAD_SECONDS = 10.0
"""For the first line and the headers of a request, from the connection or the last answer on."""
BODY_SECONDS = 20.0
"""For each further `_PIECE` of a body."""
_PIECE = 1 << 16


class LimitedConnection(H11Protocol):
    """A connection that is closed unless it sends its requests in time.

    Its parser is h11: anybody may send headers without a key, and the faster one would keep any amount of
    them. Above the limit of connections, a new one takes the place of the one that has waited longest.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timer: asyncio.TimerHandle | None = None
        self._limited: object = None
        self._received = 0

    def connection_made(self, transport: Any) -> None:
        """Take a slot, or another connection's."""
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            waiting = [one for one in self.connections if isinstance(one, LimitedConnection) and one._timer]
            if waiting:
                min(waiting, key=_deadline).end()
        self._limit()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._limit()

    def on_response_complete(self) -> None:
        self._stop()
        super().on_response_complete()
        self._limit()

    def end(self) -> None:
        self._stop()
        self.connections.discard(self)
        self.transport.abort()

    def _limit(self) -> None:
        """Start the timer of a head or a body, and stop it once the whole request is here."""
        if self.cycle is None or self.cycle.response_complete:
            if self._timer is None:
                self._start(HEAD_SECONDS)
        elif not self.cycle.more_body:
            self._stop()
        elif self._limited is not self.cycle or self._received >= _PIECE:
            self._limited = self.cycle
            self._start(BODY_SECONDS)

    def _start(self, seconds: float) -> None:
        self._stop()
        self._received = 0
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.flow.read_paused:
            # The body is here, and the application has not taken it yet.
            self._start(BODY_SECONDS)
        else:
            self.end()


def _deadline(one: LimitedConnection) -> float:
    return one._timer.when() if one._timer is not None else float("inf")
