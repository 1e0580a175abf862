"""The workers of a run: asked of Ray, admitted, and replaced where they are lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cases.texts import plural
from runs.on_ray.cluster import Cluster, live_nodes, own_address
from runs.on_ray.member import Member
from runs.record.manifest import RunError
from serving.journal.journal import Journal, JournalError
from serving.policy.gate import demand_host
from serving.policy.policy import PolicyError
from serving.protocol.errors import CallError
from serving.requests.client import ModelClient
from serving.requests.endpoint import Endpoint
from serving.requests.relay import Desk, RelayMessage, part

_LOOK_S = 1.0
"""Seconds between looks at the nodes of a cluster."""

_PATIENCE_S = 5.0
"""Seconds for which the first worker that is ready waits for the others that are being placed."""

_TELL_S = 15.0
"""Seconds without a worker after which that is said, again and again."""


Widths = dict[str, tuple[int, int]]
"""By address, the most requests at once, and the most choice requests."""


class Shares:
    """Keeps the sum of what workers may use within the limits, also while they are divided anew."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        # A model in a worker's own process shares nothing with the others.
        self._shared = {address: one.widths for address, one in endpoints.items() if one.look is not None}
        self._most = min(
            (width for widths in self._shared.values() for width in widths if width), default=None
        )
        self._numbers = itertools.count()

    async def divide(self, members: Sequence[Member]) -> None:
        """Divide the limits; a worker that is to have less gives it back before others get it.

        Where there are more workers than connections, the last ones get none.
        """
        sharing = members[: self._most]
        parts = [
            {
                address: (part(width, place, len(sharing)), part(choices, place, len(sharing)))
                for address, (width, choices) in self._shared.items()
            }
            for place in range(len(sharing))
        ]
        known = [(one, widths) for one, widths in zip(sharing, parts, strict=True) if one.widths]
        await asyncio.gather(*(self._resize(one, _smaller(one.widths, new)) for one, new in known))
        # A new one begins with the full limits, so that its learnt share equals a new run's.
        await asyncio.gather(*map(self._resize, sharing, parts))

    async def _resize(self, member: Member, widths: Widths) -> None:
        if member.widths == widths or member.lost:
            return
        number = next(self._numbers)
        done = member.resized[number] = asyncio.get_running_loop().create_future()
        member.say("resize", number, widths)
        await done
        member.widths = widths


def _smaller(one: Widths | None, other: Widths) -> Widths:
    before = one or other
    return {
        address: (min(width, before[address][0]), min(choices, before[address][1]))
        for address, (width, choices) in other.items()
    }


class Workforce(ABC):
    """Has as many workers as are wanted, or one on each node, as far as Ray can place them.

    Attributes:
        members: Present or requested members; lost ones are removed.
        changed: Set whenever one may be free, ready or gone.
    """

    def __init__(self, where: Cluster, work: bytes, report: Callable[[str], None]) -> None:
        self.members: list[Member] = []
        self.changed = asyncio.Event()
        self._where = where
        self._work = work
        self._report = report
        self._client: ModelClient | None = None
        self._journal: Journal | None = None
        self._sharing = asyncio.Event()
        self._failure: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    async def open(self, stop: asyncio.Event) -> None:
        """Request workers and wait for the first one that is ready, and a moment for the others.

        Raises:
            RunError: One cannot run the cases, such as one with another version.
            asyncio.CancelledError: The run was stopped meanwhile.
        """
        self._tasks.append(asyncio.create_task(self._keep_up()))
        began = said = time.monotonic()
        first: float | None = None
        while True:
            await _either(self.changed, stop, _LOOK_S)
            self.changed.clear()
            if stop.is_set():
                raise asyncio.CancelledError
            self.raise_failure()
            for member in self.members:
                if member.refused:
                    raise RunError(member.refused)
            now = time.monotonic()
            ready = self._ready()
            if ready and first is None:
                first = now
            if ready and (ready == len(self.members) or now - (first or now) > _PATIENCE_S):
                break
            if not ready and now - said > _TELL_S:
                said = now
                self._report(f"no worker of Ray is ready after {now - began:.0f} s: {self._lacking()}")
        places = {member.place for member in self.members if member.ready}
        self._report(f"Ray: {plural(ready, 'worker')} on {plural(len(places), 'node')}")

    def begin(self, client: ModelClient, journal: Journal) -> None:
        """Let workers reach the client, which counts and asks nothing, and the journal of the run."""
        self._client, self._journal = client, journal
        for member in self.members:
            member.desk = self._desk(member)
        self._tasks.append(asyncio.create_task(self._share(Shares(client.dispatcher.endpoints))))
        self._sharing.set()

    async def wait_for_change(self) -> None:
        """Wait until a worker may be free; not for long, as several may wait."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), _LOOK_S)
        self.changed.clear()

    def raise_failure(self) -> None:
        """Raise an error that ends the run, if there is one, or if every worker is rejected.

        Raises:
            CallError: The cluster does not answer, or no worker is left.
            JournalError: The journal cannot be written.
        """
        if self._failure is not None:
            raise self._failure
        if self._client is not None and self.members and all(member.refused for member in self.members):
            raise CallError("internal", f"no worker of Ray is left: {self.members[0].refused}")

    async def close(self) -> None:
        self._closing = True
        tasks = [*self._tasks, *(member.task for member in self.members if member.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for member in self.members:
            await member.end()

    def _fail(self, error: Exception) -> None:
        """End the run: what every case meets."""
        self._failure = self._failure or error
        for member in self.members:
            for outcome in member.under_way.values():
                if not outcome.done():
                    outcome.set_exception(error)
        self.changed.set()

    async def _keep_up(self) -> None:
        """Request workers for nodes that come, or as many as are wanted; Ray places them when it can."""
        lacking_since: float | None = None
        while True:
            try:
                nodes = await asyncio.to_thread(live_nodes)
            except Exception as error:
                self._fail(CallError("connection", f"the cluster does not answer: {error}"))
                return
            if self._where.workers is None:
                have = {member.node for member in self.members}
                for node in nodes.keys() - have:
                    self._add(node)
                for member in [one for one in self.members if one.node not in nodes and not one.ready]:
                    # Its node is gone, and its cases have begun again elsewhere.
                    await self._remove(member)
            else:
                for _ in range(self._where.workers - len(self.members)):
                    self._add(None)
            if self._ready() or self._client is None:
                lacking_since = None
            elif lacking_since is None:
                lacking_since = time.monotonic()
            elif time.monotonic() - lacking_since > _TELL_S:
                lacking_since = time.monotonic()
                self._report(f"no worker of Ray is ready; the run waits for one: {self._lacking()}")
            await asyncio.sleep(_LOOK_S)

    def _ready(self) -> int:
        return sum(member.ready for member in self.members)

    def _lacking(self) -> str:
        return (
            f"{plural(len(self.members), 'worker')} requested" if self.members else "no node has a processor"
        )

    def _add(self, node: str | None) -> None:
        member = Member(node=node)
        if self._client is not None:
            member.desk = self._desk(member)
        self.members.append(member)
        member.task = asyncio.create_task(self._serve(member))

    async def _remove(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
            if member.task is not None and member.task is not asyncio.current_task():
                member.task.cancel()
            await member.end()

    async def _serve(self, member: Member) -> None:
        """Talk with a worker until it is lost; `_keep_up` then requests another in its place."""
        reason = "it ended"
        try:
            await member.talk(self._work, partial(self._hear, member))
        except JournalError as error:
            self._fail(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Ray has an exception for each way in which a worker can be lost.
            reason = type(error).__name__
        if not member.refused and not self._closing:
            await self._lose(member, reason)

    async def _lose(self, member: Member, reason: str) -> None:
        cases = len(member.under_way)
        await self._remove(member)
        member.lose()
        self._sharing.set()
        self.changed.set()
        if member.ready:
            self._report(
                f"a worker on {member.place} was lost ({reason}), with {plural(cases, 'case')} under way that"
                f" go on elsewhere; {plural(self._ready(), 'worker')} left"
            )

    @abstractmethod
    def _hear_of_case(self, member: Member, message: RelayMessage) -> None:
        """Handle a worker's message about a case."""

    def _hear(self, member: Member, message: RelayMessage) -> None:
        """Handle a worker's message.

        Raises:
            JournalError: The journal cannot be written.
        """
        match message:
            case ("ready", node):
                self._admit(member, node)
            case ("refused", reason, node):
                place = live_nodes().get(node, node)
                self._refuse(member, f"worker of Ray on {place}: {reason}")
            case ("resized", number):
                member.resized.pop(number).set_result(None)
            case _:
                assert member.desk is not None
                if not member.desk.take(message):
                    self._hear_of_case(member, message)

    def _admit(self, member: Member, node: str) -> None:
        member.place = live_nodes().get(node, node)
        try:
            if member.place != own_address():
                # On this machine no text leaves it.
                host = f"[{member.place}]" if ":" in member.place else member.place
                demand_host(f"ray://{host}", f"worker of Ray on {member.place}")
        except PolicyError as error:
            self._refuse(member, str(error))
            return
        member.ready = True
        if self._client is not None:
            self._report(f"a worker on {member.place} has joined; {plural(self._ready(), 'worker')}")
        self._sharing.set()
        self.changed.set()

    def _refuse(self, member: Member, reason: str) -> None:
        member.refused = reason
        if self._client is not None:
            self._report(f"{reason}; the worker is left out")
        self.changed.set()

    def _desk(self, member: Member) -> Desk:
        assert self._client is not None and self._journal is not None
        return Desk(self._client, self._journal, partial(member.say, "reply"), self._fail)

    async def _share(self, shares: Shares) -> None:
        while True:
            await self._sharing.wait()
            self._sharing.clear()
            await shares.divide([member for member in self.members if member.ready])
            self.changed.set()


async def _either(changed: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Wait for one of two events, or so long."""
    waits = [asyncio.ensure_future(changed.wait()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
