"""One runner of a run that several share: it leases cases, runs them, and ends with an ordinary run folder.

The folder gets its results at the end, from the database: those of all runners. A runner that has nothing
left to lease waits for the others, and takes over the cases of one that does not respond any more.

No LangGraph checkpointer is needed: a case that another runner takes over, or that goes on after a review,
runs from its start over journalled calls, which takes milliseconds and comes to the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import secrets
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cases.load import CaseSource
from cases.records import Case, InvalidCase
from runs.assemble import Assembly
from runs.audit import record_end, record_start
from runs.batch import MAX_NOTICES, Options, cases_at_once_of, save_if_possible, why_stopped
from runs.case_run import CaseResult, invalid_case, run_case, successors
from runs.expectation import Expectation, shown_while_running
from runs.folder import CALLS, RunWriter, pack_line
from runs.manifest import DONE, Counts, RunError, RunStopped, Session, Status, quoted, utc_now
from runs.reviews import Review
from runs.shared_run import Lease, SharedRun, Stored, as_bytes, every_result
from runs.trace_file import Successors, pack
from runs.watcher import NodeWatcher, Progress, Watcher
from serving.budget import Budget
from serving.client import ModelClient
from serving.errors import CallError
from serving.journal import JournalError
from serving.postgres.address import StoreAddress, StoreError, demand_driver
from serving.postgres.copy import copy_journal
from serving.postgres.journal import PostgresJournal
from serving.postgres.schema import migrate
from serving.traffic import since, so_far

if TYPE_CHECKING:
    from serving.postgres.link import Connection

_MAX_CHUNK = 32
"""Cases that are leased in one go, at most: few, as those that wait here could run elsewhere."""

_POLL_S = 1.0
_BEATS_A_LEASE = 3
_SKIPPED_AT_ONCE = 200


async def open_shared(
    assembly: Assembly, options: Options, store: StoreAddress, watcher: Watcher, *, begin: bool
) -> SharedRun:
    """Begin a run in a database, or join it.

    Args:
        assembly: What this runner would run.
        options: How.
        store: Where.
        watcher: Told when the database is away.
        begin: Whether the run may begin now.

    Raises:
        RunError: The database holds another run, or what is asked for cannot be shared.
        PolicyError: The policy of the cases does not allow the host of the database.
        StoreError: It cannot be reached.
    """
    store.demand_allowed()
    demand_driver()
    if any(backend.batches is not None for backend in assembly.backends.values()):
        raise RunError("--store: a model that answers in batches (batch:...) is for a run in one folder")
    if options.budget.max_tokens is not None or options.budget.max_cost is not None:
        raise RunError("--store: a limit to tokens or cost counts one process; leave it out, or the store")
    manifest = assembly.manifest
    manifest.store = store.name
    if not manifest.policies:
        manifest.hosted = tuple(sorted({*manifest.hosted, *store.public_hosts}))
    await asyncio.to_thread(migrate, store)
    runner = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    shared = SharedRun(
        store, runner, watcher.notify, lease_s=options.lease_s, outage_s=options.limits.max_outage
    )
    try:
        await shared.join(manifest, assembly.source, assembly.system.compared, begin=begin)
    except BaseException:
        await shared.close()
        raise
    return shared


async def run_shared(
    folder: RunWriter,
    assembly: Assembly,
    options: Options,
    shared: SharedRun,
    *,
    stop: asyncio.Event,
    watcher: Watcher,
    only_reviewed: bool = False,
) -> Status:
    """Work on a shared run until no case is left or a stop, then write the folder.

    Args:
        folder: This runner's.
        assembly: What the run is made of.
        options: How to run.
        shared: The run; it is closed.
        stop: Ends the session early, resumable; what this runner had leased is free at once.
        watcher: Shows how it goes.
        only_reviewed: Leave all cases alone but those that go on with a review.

    Raises:
        RunStopped: The database or the folder cannot be written any more; what was done is kept.
    """
    manifest = folder.manifest
    session = Session(command=options.command, started=utc_now())
    manifest.sessions.append(session)
    manifest.status, manifest.store = "running", shared.address.name
    progress = Progress(total=manifest.inputs.cases)
    status: Status = "stopped"
    used_before, began, sent_before = time.process_time(), time.monotonic(), so_far()
    journal = PostgresJournal(shared.address, options.limits.max_outage, watcher.notify)
    try:
        prices = manifest.budget.replaced_by(options.budget).prices
        client = ModelClient(assembly.backends, journal, options.limits, progress.usage, Budget(), prices)
        folder.save_manifest()
        record_start(folder.path, manifest, options.command, None)
        await shared.save_session(session)
        expected = Expectation(assembly, (), progress, prices)
        at_once = cases_at_once_of(assembly, options)
        runner = _Runner(shared, assembly, client, progress, watcher, expected, only_reviewed, at_once)
        try:
            async with shown_while_running(folder.path, progress, watcher):
                await runner.run(stop)
        finally:
            await client.aclose()
            await journal.close()
        _end(session, progress, began, used_before)
        await shared.save_session(session)
        finished = not await shared.is_open()
        await _write_folder(folder, shared, assembly)
        status = "finished" if finished else "interrupted"
    except (OSError, JournalError, CallError) as error:
        raise RunStopped(why_stopped(folder.path, error, options.command)) from error
    finally:
        manifest.status = status
        _end(session, progress, began, used_before)
        save_if_possible(folder)
        await shared.close()
        with contextlib.suppress(OSError):
            record_end(folder.path, status, manifest.counts.total, since(sent_before, so_far()))
    return status


def _end(session: Session, progress: Progress, began: float, used_before: float) -> None:
    if session.finished is None:
        session.end(progress.usage)
        session.seconds = round(time.monotonic() - began, 3)
        session.processor_seconds = round(time.process_time() - used_before, 3)


async def _write_folder(folder: RunWriter, shared: SharedRun, assembly: Assembly) -> None:
    """Take everything that all runners have done into this runner's folder."""
    manifest = folder.manifest

    async def take(connection: Connection) -> None:
        await copy_journal(shared.address, connection, folder.path / CALLS)
        await folder.take_results(every_result(connection))

    await shared.read(take)
    manifest.sessions = await shared.sessions()
    impaired = folder.impaired(assembly.system.impairments)
    manifest.counts = Counts.of(folder.statuses(), len(impaired))


@dataclass(slots=True)
class _Runner:
    """The cases that this runner has leased.

    Attributes:
        held: By position; a lease stays here until its case has ended or is lost.
        ready: Those that have not begun.
        running: The task of a case by the fence of its lease.
    """

    shared: SharedRun
    assembly: Assembly
    client: ModelClient
    progress: Progress
    watcher: Watcher
    expected: Expectation
    only_reviewed: bool
    at_once: int
    held: dict[int, Lease] = field(default_factory=dict)
    ready: deque[Lease] = field(default_factory=deque)
    running: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    notices: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until nothing is left or a stop."""
        await self._refresh()
        following = successors(self.assembly.graph)
        cases = _Cases(self.assembly.source)
        workers = [asyncio.create_task(self._work(cases, following)) for _ in range(self.at_once)]
        beat: asyncio.Future[Any] = asyncio.create_task(self._beat())
        stopped: asyncio.Future[Any] = asyncio.create_task(stop.wait())
        everything: asyncio.Future[Any] = asyncio.gather(*workers)
        try:
            await asyncio.wait({everything, beat, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for one in (everything, beat):
                if one.done():
                    one.result()
        finally:
            for task in (*workers, beat, stopped):
                task.cancel()
            await asyncio.gather(*workers, everything, beat, stopped, return_exceptions=True)
            # If the database is away, they expire.
            with contextlib.suppress(StoreError):
                await self.shared.release(self.held.values())
        await self._refresh()

    async def _work(self, cases: _Cases, following: Successors) -> None:
        while (lease := await self._next()) is not None:
            case = await cases.at(lease)
            task = self.running[lease.fence] = asyncio.create_task(self._run(lease, case, following))
            self.progress.under_way += 1
            try:
                await task
            except asyncio.CancelledError:
                if self.held.get(lease.position) == lease:
                    # This runner stops; otherwise the case alone was lost.
                    raise
            finally:
                self.progress.under_way -= 1
                del self.running[lease.fence]

    async def _next(self) -> Lease | None:
        """The next case to run; None once no case is open, be it another runner's."""
        async with self._turn:
            while not self.ready:
                number = max(1, min(_MAX_CHUNK, self.at_once // 4))
                new = await self.shared.lease(number, self.held, reviewed=self.only_reviewed)
                self.held |= {one.position: one for one in new}
                self.ready.extend(new)
                if not new:
                    if not await self.shared.is_open(reviewed=self.only_reviewed):
                        return None
                    await asyncio.sleep(min(_POLL_S, self.shared.lease_s / _BEATS_A_LEASE))
            return self.ready.popleft()

    async def _run(self, lease: Lease, case: Case | InvalidCase, following: Successors) -> None:
        results = self.assembly.system.results
        if isinstance(case, InvalidCase):
            result = invalid_case(case, results)
        else:
            review = None if lease.review is None else Review.model_validate_json(lease.review)
            tell = self.watcher.node if isinstance(self.watcher, NodeWatcher) else None
            context = self.assembly.context(case, self.client)
            ended = False
            try:
                result = await run_case(self.assembly.graph, context, case, following, results, review, tell)
                ended = True
            finally:
                self.client.forget(case.id, ended=ended)
            self.expected.ended(result.line["usage"]["calls"])
        await self._keep(lease, case.id, result)

    async def _keep(self, lease: Lease, case_id: str, result: CaseResult) -> None:
        status, error = result.line["status"], result.line["error"]
        if error is not None and lease.before == DONE:
            # It has a result, and a failure is no better one.
            taken = await self.shared.finish(lease, DONE, None)
            self.watcher.notify(f"case {case_id} failed this time, so it stays as it was")
            status, error = DONE, None
        else:
            state = f"{status}:{error['class']}" if error else status
            stored = Stored(pack_line(result.line), pack(result.trace))
            taken = await self.shared.finish(lease, state, stored)
        if not taken:
            self._lose(lease)
            return
        self._let_go(lease)
        if error is not None:
            self._notify(case_id, error)
        self._count({status: 1}, more=True)

    def _notify(self, case_id: str, error: Mapping[str, str]) -> None:
        self.notices += 1
        if self.notices <= MAX_NOTICES:
            self.watcher.notify(f"case {case_id} failed: {error['class']}: {error['message']}")

    async def _beat(self) -> None:
        """Renew the leases, and let go of the cases whose lease another runner has."""
        while True:
            await asyncio.sleep(self.shared.lease_s / _BEATS_A_LEASE)
            mine = list(self.held.values())
            kept = await self.shared.renew(mine)
            for lease in mine:
                if lease.fence not in kept and self.held.get(lease.position) == lease:
                    self._lose(lease)
            await self._refresh()

    def _lose(self, lease: Lease) -> None:
        """Drop a case that another runner has taken over; its calls are stored, and replayed there."""
        self._let_go(lease)
        with contextlib.suppress(ValueError):
            self.ready.remove(lease)
        task = self.running.get(lease.fence)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        case_id = lease.case_id.decode(errors="replace")
        self.watcher.notify(f"case {case_id}: its lease ran out, and another runner has taken it over")

    def _let_go(self, lease: Lease) -> None:
        if self.held.get(lease.position) == lease:
            del self.held[lease.position]

    async def _refresh(self) -> None:
        """Count what all runners have done."""
        self._count(await self.shared.totals())

    def _count(self, totals: Mapping[str, int], *, more: bool = False) -> None:
        counts, progress = Counts.of_totals(totals), self.progress
        before = (progress.done, progress.failed, progress.waiting) if more else (0, 0, 0)
        now = (counts.done, counts.failed, counts.waiting)
        progress.done, progress.failed, progress.waiting = (a + b for a, b in zip(before, now, strict=True))
        self.watcher.update(progress)


class _Cases:
    """Cases by their position, read in one go as long as positions grow."""

    def __init__(self, source: CaseSource) -> None:
        self._source = source
        self._rest: Iterator[tuple[int, Case | InvalidCase]] = iter(())
        self._next = 0
        self._turn = asyncio.Lock()

    async def at(self, lease: Lease) -> Case | InvalidCase:
        """The case of a lease.

        Raises:
            RunError: The input has another there.
        """
        async with self._turn:
            if self._next == 0 or lease.position < self._next:
                self._rest = enumerate(self._source)
            for position, case in self._rest:
                self._next = position + 1
                if position == lease.position:
                    if as_bytes(case.id) != lease.case_id:
                        break
                    return case
                if position % _SKIPPED_AT_ONCE == 0:
                    # A long way to the case must not hold up the leases of others.
                    await asyncio.sleep(0)
        raise RunError(
            f"case {quoted(lease.case_id.decode(errors='replace'))} is not where the store has it: the case"
            " files have changed while the run goes on"
        )
