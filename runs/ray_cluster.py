"""Cases on a Ray cluster: workers run them, and this process alone writes the run.

Each worker is an actor with one streaming method, on which it says everything, and a second one that takes
what it is to do. Ray places workers, holds back one that says more than is read, and tells of those that are
lost; their cases begin again on other workers, on the replies that were stored. Ray Data recovers whole
blocks of rows: a reply that is paid for in the middle of a row would be asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases.records import Case
from cases.texts import plural
from nodes.core.failure import NodeFailure
from runs.case_run import CaseResult, failed_case
from runs.manifest import RunError, own_version
from runs.ray_worker import Work, code_sha256
from runs.reviews import Review
from serving.backends.backend import installed
from serving.budget import BudgetSpent
from serving.client import ModelClient
from serving.errors import CallError
from serving.gate import demand_host
from serving.journal import Journal, JournalError
from serving.model_name import ModelName
from serving.policy import PolicyError
from serving.relay import Desk, Told, part
from serving.traffic import count

RAY = "ray"
MAX_LOSSES = 3
"""A case that was under way on so many workers when they were lost fails: it may be what ends them."""

_LOOK_S = 1.0
"""Seconds between looks at the nodes of a cluster."""

_PATIENCE_S = 5.0
"""Seconds for which the first worker that is ready waits for the others that are being placed."""

_TELL_S = 15.0
"""Seconds without a worker after which that is said, again and again."""

_MESSAGES_AHEAD = 64
"""Messages that a worker may be ahead of this process."""

_LOCAL_STORE_BYTES = 200 << 20
"""Shared memory of a cluster on this machine; messages of less than 100 kB do not use it."""

_SHIFT_S = 0.001
"""What is to be said to a worker within this time goes in one message."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where cases run.

    Attributes:
        address: Host and port of the cluster; empty for the one that this process belongs to, else for a new
            one on this machine.
        workers: Their number; None for one on each node, or one for each processor of a new cluster.
    """

    address: str = ""
    workers: int | None = None


def parse_cluster(text: str, workers: int | None) -> Cluster:
    """Parse `ray[://HOST:PORT]`.

    Raises:
        ValueError: Says what the form is.
    """
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if name != RAY or (separator and not (host and colon and port.isdigit())):
        raise ValueError(f"{text!r} is neither ray nor ray://HOST:PORT")
    return Cluster(address, workers)


@dataclass(slots=True, eq=False)
class _Worker:
    """One actor, from its request to its loss.

    Attributes:
        actor: Its handle; None until it was requested.
        node: Id of the node that it is bound to; None where Ray chooses.
        place: The name of its node, once it is ready.
        under_way: What becomes of its cases, by their id.
        widths: What it may use of each address; None until it may use any.
    """

    actor: Any = None
    node: str | None = None
    place: str = ""
    ready: bool = False
    refused: str = ""
    under_way: dict[str, asyncio.Future[CaseResult]] = field(default_factory=dict)
    widths: dict[str, tuple[int, int]] | None = None
    desk: Desk | None = None
    resized: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    to_say: list[Told] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def say(self, *message: Any) -> None:
        """Send it with what else there is to say."""
        self.to_say.append(message)
        self.news.set()


class _Lost(Exception):
    """The worker of a case is gone."""


class RayCases:
    """Runs cases on the workers of a cluster."""

    def __init__(self, where: Cluster, work: bytes, report: Callable[[str], None]) -> None:
        """Nothing is requested yet.

        Args:
            where: The cluster, which this process is connected to.
            work: A pickled `Work`.
            report: Called with a line about workers that come and go.
        """
        self.processor_seconds = 0.0
        self._where = where
        self._work = work
        self._report = report
        self._workers: list[_Worker] = []
        self._client: ModelClient | None = None
        self._journal: Journal | None = None
        self._results: tuple[str, ...] = ()
        self._cases_each = 1
        self._changed = asyncio.Event()
        self._sharing = asyncio.Event()
        self._alone = asyncio.Lock()
        self._failure: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._hello = pickle.dumps((own_version(), code_sha256()))
        self._actor = _actor_class()
        self._closing = False
        self._numbers = 0

    async def open(self, stop: asyncio.Event) -> None:
        """Request workers and wait for the first one that is ready, and a moment for the others.

        Raises:
            RunError: One cannot run the cases, such as one with another version.
            asyncio.CancelledError: The run was stopped meanwhile.
        """
        self._tasks.append(asyncio.create_task(self._keep_up_workers()))
        began = said = time.monotonic()
        first: float | None = None
        while True:
            await _either(self._changed, stop, _LOOK_S)
            self._changed.clear()
            if stop.is_set():
                raise asyncio.CancelledError
            self._raise_failure()
            for worker in self._workers:
                if worker.refused:
                    raise RunError(worker.refused)
            now = time.monotonic()
            ready = sum(worker.ready for worker in self._workers)
            if ready and first is None:
                first = now
            if ready and (ready == len(self._workers) or now - (first or now) > _PATIENCE_S):
                break
            if not ready and now - said > _TELL_S:
                said = now
                self._report(f"no worker of Ray is ready after {now - began:.0f} s: {self._lacking()}")
        places = {worker.place for worker in self._workers if worker.ready}
        self._report(f"Ray: {plural(ready, 'worker')} on {plural(len(places), 'node')}")

    def begin(self, client: ModelClient, journal: Journal, results: Iterable[str], cases_each: int) -> None:
        """Take what the batch keeps.

        Args:
            client: Of this process; it counts, and asks nothing.
            journal: Of the run.
            results: Fields of the line of a case that failed with its workers.
            cases_each: The most cases that a worker has at once.
        """
        self._client, self._journal, self._results = client, journal, tuple(results)
        self._cases_each = cases_each
        for worker in self._workers:
            worker.desk = self._desk(worker)
        self._tasks.append(asyncio.create_task(self._share_limits()))
        self._sharing.set()

    async def __call__(self, case: Case, review: Review | None) -> CaseResult:
        """Run a case on one worker after the other, until one has come to its end.

        Raises:
            BudgetSpent, JournalError: As of a case in this process.
            CallError: No worker is left.
        """
        losses = 0
        while losses < MAX_LOSSES:
            # The last attempt is made while no other such case is under way, so that the guilty one is found.
            last: contextlib.AbstractAsyncContextManager[None] = (
                self._alone if losses == MAX_LOSSES - 1 else contextlib.nullcontext()
            )
            async with last:
                try:
                    return await self._run_once(case, review)
                except _Lost:
                    losses += 1
        failure = NodeFailure(
            "internal", f"{plural(MAX_LOSSES, 'worker')} of Ray were lost while this case was under way"
        )
        return failed_case(case, failure, self._results)

    async def close(self) -> None:
        """End all workers."""
        self._closing = True
        tasks = [*self._tasks, *(task for worker in self._workers for task in worker.tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self._workers:
            await self._end(worker)

    async def _run_once(self, case: Case, review: Review | None) -> CaseResult:
        worker = await self._free_worker()
        outcome: asyncio.Future[CaseResult] = asyncio.get_running_loop().create_future()
        worker.under_way[case.id] = outcome
        worker.say("case", case, review)
        try:
            return await outcome
        finally:
            worker.under_way.pop(case.id, None)
            self._changed.set()

    async def _free_worker(self) -> _Worker:
        """The one with the fewest cases; waits for one that has room."""
        while True:
            self._raise_failure()
            usable = [
                one
                for one in self._workers
                if one.widths is not None and len(one.under_way) < self._cases_each
            ]
            if usable:
                return min(usable, key=lambda one: len(one.under_way))
            if self._workers and all(worker.refused for worker in self._workers):
                raise CallError("internal", f"no worker of Ray is left: {self._workers[0].refused}")
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), _LOOK_S)
        self._changed.clear()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception) -> None:
        """End the run: what every case meets."""
        self._failure = self._failure or error
        for worker in self._workers:
            for outcome in worker.under_way.values():
                if not outcome.done():
                    outcome.set_exception(error)
        self._changed.set()

    async def _keep_up_workers(self) -> None:
        """Request workers for nodes that come, or as many as are wanted; Ray places them when it can."""
        lacking_since: float | None = None
        while True:
            try:
                nodes = await asyncio.to_thread(_live_nodes)
            except Exception as error:
                self._fail(CallError("connection", f"the cluster does not answer: {error}"))
                return
            if self._where.workers is None:
                have = {worker.node for worker in self._workers}
                for node in nodes.keys() - have:
                    self._add(node)
                for worker in [one for one in self._workers if one.node not in nodes and not one.ready]:
                    # Its node is gone, and its cases have begun again elsewhere.
                    await self._remove(worker)
            else:
                for _ in range(self._where.workers - len(self._workers)):
                    self._add(None)
            if any(worker.ready for worker in self._workers) or self._client is None:
                lacking_since = None
            elif lacking_since is None:
                lacking_since = time.monotonic()
            elif time.monotonic() - lacking_since > _TELL_S:
                lacking_since = time.monotonic()
                self._report(f"no worker of Ray is ready; the run waits for one: {self._lacking()}")
            await asyncio.sleep(_LOOK_S)

    def _lacking(self) -> str:
        return (
            f"{plural(len(self._workers), 'worker')} requested"
            if self._workers
            else "no node has a processor"
        )

    def _add(self, node: str | None) -> None:
        worker = _Worker(node=node)
        if self._client is not None:
            worker.desk = self._desk(worker)
        self._workers.append(worker)
        worker.tasks = [asyncio.create_task(self._listen(worker)), asyncio.create_task(self._speak(worker))]

    async def _remove(self, worker: _Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            for task in worker.tasks:
                if task is not asyncio.current_task():
                    task.cancel()
            await self._end(worker)

    async def _end(self, worker: _Worker) -> None:
        if worker.desk is not None:
            await worker.desk.close()
        if worker.actor is not None:
            import ray

            # It may still run, such as on the other side of a broken network.
            with contextlib.suppress(Exception):
                ray.kill(worker.actor)

    async def _listen(self, worker: _Worker) -> None:
        """Hear a worker until it is lost; then request another in its place."""
        reason = "it ended"
        try:
            worker.actor = _request(self._actor, worker.node)
            said = worker.actor.messages.options(
                num_returns="streaming", _generator_backpressure_num_objects=_MESSAGES_AHEAD
            )
            async for reference in said.remote(self._hello, self._work):
                for message in pickle.loads(await reference):  # noqa: S301 - from our own process
                    self._hear(worker, message)
        except JournalError as error:
            self._fail(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Ray has an exception for each way in which a worker can be lost.
            reason = type(error).__name__
        if worker.refused or self._closing:
            return
        await self._lose(worker, reason)

    async def _lose(self, worker: _Worker, reason: str) -> None:
        was_ready, cases = worker.ready, len(worker.under_way)
        await self._remove(worker)
        for outcome in worker.under_way.values():
            if not outcome.done():
                outcome.set_exception(_Lost())
        for shrunk in worker.resized.values():
            if not shrunk.done():
                shrunk.set_result(None)
        self._sharing.set()
        self._changed.set()
        if was_ready:
            left = sum(one.ready for one in self._workers)
            self._report(
                f"a worker on {worker.place} was lost ({reason}), with {plural(cases, 'case')} under way that"
                f" go on elsewhere; {plural(left, 'worker')} left"
            )

    async def _speak(self, worker: _Worker) -> None:
        while True:
            await worker.news.wait()
            await asyncio.sleep(_SHIFT_S)
            worker.news.clear()
            messages, worker.to_say = worker.to_say, []
            try:
                await worker.actor.take.remote(pickle.dumps(messages))
            except asyncio.CancelledError:
                raise
            except Exception:
                # The listener hears of it too.
                return

    def _hear(self, worker: _Worker, message: Told) -> None:
        """Do what a worker says.

        Raises:
            JournalError: The journal cannot be written.
        """
        match message:
            case ("ready", node):
                self._admit(worker, node)
            case ("refused", reason, node):
                place = _live_nodes().get(node, node)
                worker.refused = f"worker of Ray on {place}: {reason}"
                if self._client is not None:
                    self._report(f"{worker.refused}; it is left out")
                self._changed.set()
            case ("ended", case_id, result, sent, seconds):
                for address, traffic in sent.items():
                    count(address, traffic)
                self.processor_seconds += seconds
                self._settle(worker, case_id, result)
            case ("spent", case_id, why):
                self._settle(worker, case_id, BudgetSpent(why))
            case ("broken", case_id, why):
                self._settle(worker, case_id, RuntimeError(f"case {case_id} on {worker.place}: {why}"))
            case ("resized", number):
                worker.resized.pop(number).set_result(None)
            case _:
                assert worker.desk is not None
                known = worker.desk.take(message)
                assert known, message[0]

    def _admit(self, worker: _Worker, node: str) -> None:
        nodes = _live_nodes()
        worker.place = nodes.get(node, node)
        try:
            if worker.place != _own_address():
                # On this machine no text leaves it.
                demand_host(f"ray://{_bracketed(worker.place)}", f"worker of Ray on {worker.place}")
        except PolicyError as error:
            worker.refused = str(error)
            if self._client is not None:
                self._report(f"{error}; the worker is left out")
        else:
            worker.ready = True
            if self._client is not None:
                ready = sum(one.ready for one in self._workers)
                self._report(f"a worker on {worker.place} has joined; {plural(ready, 'worker')}")
        self._sharing.set()
        self._changed.set()

    def _settle(self, worker: _Worker, case_id: str, outcome: CaseResult | Exception) -> None:
        waiting = worker.under_way.get(case_id)
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, Exception):
            waiting.set_exception(outcome)
            return
        assert self._client is not None
        calls = (call for line in outcome.trace for call in line.get("calls", ()))
        self._client.usage.replayed += sum(call["replayed"] for call in calls)
        waiting.set_result(outcome)

    def _desk(self, worker: _Worker) -> Desk:
        assert self._client is not None and self._journal is not None
        return Desk(self._client, self._journal, lambda number, value: worker.say("reply", number, value))

    async def _share_limits(self) -> None:
        """Divide the user's limits: a worker that is to have less gives it back before others get it."""
        assert self._client is not None
        endpoints = self._client.dispatcher.endpoints
        # A model in a worker's own process shares nothing with the others.
        shared = {address: one.widths for address, one in endpoints.items() if one.look is not None}
        most = min((width for widths in shared.values() for width in widths if width), default=None)
        while True:
            await self._sharing.wait()
            self._sharing.clear()
            sharing = [worker for worker in self._workers if worker.ready and not worker.refused][:most]
            parts = [
                {
                    address: (part(width, place, len(sharing)), part(choices, place, len(sharing)))
                    for address, (width, choices) in shared.items()
                }
                for place in range(len(sharing))
            ]
            known = [(one, widths) for one, widths in zip(sharing, parts, strict=True) if one.widths]
            await asyncio.gather(*(self._resize(one, _smaller(one.widths, new)) for one, new in known))
            for worker, widths in zip(sharing, parts, strict=True):
                if worker.widths != widths and worker in self._workers:
                    # It begins with the whole limits, so that the learnt share of them is that of a new run.
                    await self._resize(worker, widths)
            self._changed.set()

    async def _resize(self, worker: _Worker, widths: dict[str, tuple[int, int]]) -> None:
        if worker.widths == widths or worker not in self._workers:
            return
        self._numbers += 1
        done = worker.resized[self._numbers] = asyncio.get_running_loop().create_future()
        worker.say("resize", self._numbers, widths)
        await done
        worker.widths = widths


def _smaller(
    one: Mapping[str, tuple[int, int]] | None, other: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Of each number the smaller one."""
    before = one or other
    return {
        address: (min(width, before[address][0]), min(choices, before[address][1]))
        for address, (width, choices) in other.items()
    }


@asynccontextmanager
async def cases_on_ray(
    where: Cluster, work: Work, stop: asyncio.Event, report: Callable[[str], None]
) -> AsyncIterator[RayCases]:
    """Connect to a cluster, or start one on this machine, and get workers ready.

    Raises:
        RunError: The cluster cannot be reached, or a worker cannot run the cases.
        PolicyError: No text may go to one of its nodes.
    """
    owned = _connect(where)
    try:
        if owned and where.workers is None:
            where = Cluster(where.address, os.cpu_count() or 1)
        cases = RayCases(where, pickle.dumps(work), report)
        try:
            await cases.open(stop)
            yield cases
        finally:
            await cases.close()
    finally:
        import ray

        ray.shutdown()


def demand_usable(models: Iterable[ModelName]) -> None:
    """Refuse what cannot be spread over machines, before anything is started for it.

    Raises:
        RunError: Ray is not installed, or a model cannot be asked from there.
    """
    state = installed("ray", "'evigraph[ray]'")
    if state != "ready":
        raise RunError(f"--on ray: Ray is {state}")
    for name in models:
        if name.batched:
            raise RunError(
                f"--on ray: model {str(name)!r} answers in batches, which need no workers; leave --on or"
                " batch: out"
            )
        if name.needs_server:
            raise RunError(
                f"--on ray: model {str(name)!r} names no server, and one that this command starts cannot be"
                " reached from other nodes; start it with evigraph serve, and name its address"
            )


def _connect(where: Cluster) -> bool:
    """Whether this process has started the cluster, which then ends with it.

    Raises:
        RunError: There is none at the address.
    """
    import ray

    # Failures come as exceptions; the rest is for whoever runs the cluster.
    logging.getLogger("ray").setLevel(logging.ERROR)
    handler = signal.getsignal(signal.SIGTERM)
    address = where.address or os.environ.get("RAY_ADDRESS", "")
    options: dict[str, Any] = {
        "log_to_driver": False,
        "configure_logging": False,
        "logging_level": "ERROR",
    }
    if not address:
        options |= {
            "num_cpus": max(where.workers or 0, os.cpu_count() or 1),
            "object_store_memory": _LOCAL_STORE_BYTES,
            "include_dashboard": False,
        }
    try:
        ray.init(address=address or "local", **options)
    except Exception as error:
        raise RunError(
            f"--on ray: cannot connect to {address or 'a new cluster'}: {' '.join(str(error).split())}; the"
            " address is that of the head (its port is 6379 unless chosen otherwise), and a node of the"
            " cluster has to run on this machine"
        ) from None
    finally:
        # Ray would end this process at once, in the middle of a case.
        signal.signal(signal.SIGTERM, handler)
    return not address


def _live_nodes() -> dict[str, str]:
    """Addresses of the nodes that have processors, by id."""
    import ray

    return {
        node["NodeID"]: node["NodeManagerAddress"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    }


def _own_address() -> str:
    """Of the node that this process belongs to, which is on its machine."""
    import ray

    return str(ray.util.get_node_ip_address())


def _request(actor: Any, node: str | None) -> Any:
    """Ask Ray for a worker; it waits for a processor as long as there is none."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy: Any = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node, soft=False)
    # What Ray adds to the path of workers would let a folder `cases` here stand for the package.
    added = [str(Path.cwd()), str(Path(sys.argv[0]).resolve().parent)]
    return actor.options(num_cpus=1, max_restarts=0, scheduling_strategy=strategy).remote(added)


def _actor_class() -> Any:
    """The actor. It is sent as it stands here, so that a node without this version can say so itself."""
    import ray

    class EvigraphWorker:
        def __init__(self, added: list[str]) -> None:
            import sys

            for path in added:
                if path in sys.path:
                    sys.path.remove(path)
            self.worker: Any = None

        async def messages(self, hello: bytes, work: bytes) -> AsyncIterator[bytes]:
            import pickle

            import ray

            node = ray.get_runtime_context().get_node_id()
            version, code = pickle.loads(hello)  # noqa: S301 - from our own process
            try:
                from importlib import metadata

                from runs.ray_worker import Worker, code_sha256
                from serving.privacy import switch_off_telemetry

                found = metadata.version("evigraph"), code_sha256()
            except Exception as error:
                reason = f"Evigraph {version} is not installed there, or another version is ({error})"
                yield pickle.dumps([("refused", reason, node)])
                return
            if found != (version, code):
                what = f"has Evigraph {found[0]}" if found[0] != version else "has other code of this version"
                reason = (
                    f"{what}, and the run {version} (code {found[1][:8]} and {code[:8]}); install the same"
                )
                yield pickle.dumps([("refused", reason, node)])
                return
            switch_off_telemetry()
            self.worker = Worker(node)
            async for messages in self.worker.messages(work):
                yield messages

        async def take(self, messages: bytes) -> None:
            self.worker.take(messages)

    return ray.remote(EvigraphWorker)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _either(changed: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Wait for one of two events, or so long."""
    waits = [asyncio.ensure_future(changed.wait()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
