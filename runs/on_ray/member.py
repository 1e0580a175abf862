"""The driver's side of one worker, from its request to its loss: its cases, its share, the talk with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runs.execute.case_run import CaseResult
from runs.on_ray.actor import Actor
from serving.requests.relay import Desk, RelayMessage

_SHIFT_S = 0.001
"""Reactions to messages within this time, such as replies and the next case, go into the next exchange."""

_NUDGE_S = 0.01
"""Messages that arise while an exchange waits are sent after this time, unless it has ended."""


class Lost(Exception):
    """The worker of a case is gone."""


@dataclass(slots=True, eq=False)
class Member:
    """One worker.

    Attributes:
        node: Id of the node that it is bound to; None where Ray chooses.
        place: The name of its node, once it is ready.
        refused: Why it cannot be used; empty while it can.
        under_way: Outcomes of its cases, by id.
        widths: Its share of each address; None until assigned.
        desk: Access to journal, budget and rates.
        resized: Its confirmations of new widths, by number.
        task: The talk with it.
    """

    node: str | None = None
    place: str = ""
    ready: bool = False
    lost: bool = False
    refused: str = ""
    under_way: dict[str, asyncio.Future[CaseResult]] = field(default_factory=dict)
    widths: dict[str, tuple[int, int]] | None = None
    desk: Desk | None = None
    resized: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    _actor: Actor | None = None
    _to_say: list[RelayMessage] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, *message: Any) -> None:
        """Send it with what else there is to say."""
        self._to_say.append(message)
        self._news.set()

    async def talk(self, work: bytes, hear: Callable[[RelayMessage], None]) -> None:
        """Start the worker and talk to it until it is rejected.

        `work` is a pickled `Work`; `hear` is called with each thing that it says, in order.

        Raises:
            Exception: The worker is lost, for which Ray has many; or whatever `hear` raises.
        """
        self._actor = Actor(self.node)
        said = await self._actor.begin(work)
        nudging = asyncio.create_task(self._nudge(self._actor))
        try:
            while True:
                for message in said:
                    hear(message)
                if self.refused:
                    return
                await asyncio.sleep(_SHIFT_S)
                said = await self._actor.exchange(self._taken())
        finally:
            nudging.cancel()

    async def _nudge(self, actor: Actor) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(_NUDGE_S)
            if not self._to_say:
                continue
            try:
                await actor.take(self._taken())
            except asyncio.CancelledError:
                raise
            except Exception:
                # The message may not have arrived. The waiting exchange reports that the worker is gone.
                await self.end()
                return

    def _taken(self) -> list[RelayMessage]:
        self._news.clear()
        messages, self._to_say = self._to_say, []
        return messages

    def lose(self) -> None:
        """Notify waiting tasks that the worker is gone."""
        self.lost = True
        for outcome in self.under_way.values():
            if not outcome.done():
                outcome.set_exception(Lost())
        for shrunk in self.resized.values():
            if not shrunk.done():
                shrunk.set_result(None)

    async def end(self) -> None:
        """End its process, which may still run, such as on the other side of a broken network."""
        if self.desk is not None:
            await self.desk.close()
        if self._actor is not None:
            with contextlib.suppress(Exception):
                self._actor.kill()
