"""The scheduler: cases side by side, results on disk as they end, a clean stop at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from cases.records import Case, InvalidCase
from cases.texts import quoted
from nodes.evidence.label_evidence import CaseKeys
from retrieval.pools.pool import REMEMBERED_IN_BATCHES, DemonstrationPool
from runs.execute.admission import Admission
from runs.execute.assemble import Assembly
from runs.execute.case_run import CaseResult, CaseRunner, invalid_case
from runs.execute.expectation import Expectation, shown_while_running
from runs.execute.ordering import OrderedCases, window_size
from runs.execute.reply_quality import FirstCases, degraded_steps
from runs.execute.rounds import CASES_AT_ONCE, BatchOptions, Rounds, begin_rounds
from runs.execute.watcher import NodeWatcher, Progress, Watcher
from runs.move.scratch import Scratch
from runs.on_ray.cases import RayCases
from runs.on_ray.cluster import Cluster
from runs.record.audit import record_end, record_start
from runs.record.folder import CALLS, RunWriter, is_impaired
from runs.record.manifest import (
    DONE,
    FAILED,
    WAITING,
    BudgetCaps,
    Counts,
    Manifest,
    RunStopped,
    Session,
    Status,
    utc_now,
)
from runs.record.trace_file import Line
from runs.record.used import count_killed, stored_spend
from runs.review.reviewers import ReviewedRun
from runs.review.reviews import Review
from serving.batches.pending import CallPending
from serving.journal.journal import Journal, JournalDamaged, JournalError
from serving.policy.traffic import since, so_far
from serving.protocol.budget import Budget, BudgetSpent, Prices, Spend
from serving.protocol.errors import CallError
from serving.protocol.limits import Limits
from serving.requests.client import ModelClient, price_of

MAX_CASES_AT_ONCE = 256
MAX_CASES_ON_A_CLUSTER = 1024
MAX_NOTICES = 10

RunCase = Callable[[Case, ModelClient], Awaitable[CaseResult]]
"""Runs a case from its middle on, as a fork does."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, as against what; nothing here changes a result.

    Attributes:
        concurrency: Cases at once; None follows the limit of connections.
        given_limits: Those that the user names for a run that continues; the others come back as recorded.
            None leaves `limits` unchanged.
        budget: Budget of all sessions of the run together; unset values stay as recorded.
        probe: Whether servers are probed at the start.
        on: The cluster that cases run on; None for this process.
        scratch: Where the run is written before it is published; None for its folder.
        keep_going: Whether the session continues even if its first cases are all degraded.
    """

    command: str
    concurrency: int | None = None
    limits: Limits = field(default_factory=Limits)
    budget: BudgetCaps = field(default_factory=BudgetCaps)
    probe: bool = True
    batches: BatchOptions = field(default_factory=BatchOptions)
    on: Cluster | None = None
    scratch: Scratch | None = None
    keep_going: bool = True
    given_limits: Mapping[str, Any] | None = None

    def continuing(self, manifest: Manifest) -> Options:
        """The options of a session that continues a run, with the limits that the run has recorded."""
        if self.given_limits is None:
            return self
        return replace(self, limits=Limits(**{**manifest.limits, **self.given_limits}))

    @property
    def recorded_limits(self) -> dict[str, Any]:
        """Limits that differ from the defaults, for `run.json`."""
        limits = {one.name: getattr(self.limits, one.name) for one in fields(Limits)}
        defaults = {one.name: one.default for one in fields(Limits)}
        return {name: value for name, value in limits.items() if value != defaults[name]}


async def run_batch(
    folder: RunWriter,
    assembly: Assembly,
    options: Options,
    *,
    skipped: Collection[str],
    stop: asyncio.Event,
    watcher: Watcher,
    only: Collection[str] | None = None,
    cluster: RayCases | None = None,
    run_case: RunCase | None = None,
) -> Status:
    """Run all cases that are not `skipped`, and leave the folder readable however that ends.

    Cases that are not in `only` are left alone, whether they have ended or not. A `stop` ends the session
    early, resumable. Without a `cluster`, cases run in this process; `run_case` runs each, if it is given.

    Raises:
        RunStopped: The folder cannot be written any more; finished work is kept.
        RunError: The file of reviews cannot be read.
    """
    manifest = folder.manifest
    reviews = ReviewedRun(folder.home).counting() if assembly.recipe.waits_for_people else {}
    known = folder.statuses()
    impaired = folder.impaired(assembly.system.impairments)
    statuses = {case_id: status for case_id, status in known.items() if case_id in skipped}
    progress = Progress(
        total=manifest.inputs.cases,
        done=sum(status == DONE for status in statuses.values()),
        failed=sum(status.startswith(FAILED) for status in statuses.values()),
        waiting=sum(status == WAITING for status in statuses.values()),
    )
    manifest.budget = manifest.budget.replaced_by(options.budget)
    manifest.limits = options.recorded_limits
    session = Session(command=options.command, started=utc_now())
    manifest.sessions.append(session)
    ended_before = manifest.status == "finished"
    manifest.status = "running"
    status: Status = "stopped"
    used_before, began, sent_before = time.process_time(), time.monotonic(), so_far()
    try:
        journal = Journal(folder.path / CALLS)
        try:
            own = None if (folder.path / CALLS).is_symlink() else journal
            if own is not None:
                count_killed(manifest.sessions[:-1], own, _prices(assembly, manifest.budget))
            progress.earlier_cost, progress.max_cost = manifest.total_cost, manifest.budget.max_cost
            budget = _budget(manifest, journal)
            client = ModelClient(
                assembly.backends,
                journal,
                options.limits,
                progress.usage,
                budget,
                manifest.budget.prices,
            )
            rounds = None
            if run_case is None:
                retries = options.limits.max_retries
                rounds = begin_rounds(client, journal, options.batches, retries, progress, watcher)
            for tool in assembly.tools.values():
                if rounds is not None and isinstance(tool, DemonstrationPool):
                    tool.remembered_bytes = REMEMBERED_IN_BATCHES
            folder.save_manifest()
            record_start(folder.home, manifest, options.command, own)
            watcher.update(progress)
            expected = Expectation(assembly, skipped, progress, manifest.budget.prices)
            try:
                # The first cases are rehearsed before any begins only where a budget has to know.
                foreseen = await expected.forecast() if budget.limited else None
                answered = _answered(manifest, journal, budget)
                admission = Admission(budget, foreseen, answered, _ended_well(known))
                if cluster is not None:
                    cluster.start(client, journal, assembly.system.results, _cases_each(assembly, options))
                batch = _Batch(
                    folder,
                    assembly,
                    client,
                    cluster or _in_this_process(assembly, client, watcher, run_case),
                    skipped,
                    statuses,
                    progress,
                    watcher,
                    reviews,
                    admission,
                    expected,
                    impaired,
                    _ended_well(known),
                    FirstCases(len(only) if only else progress.total - progress.ended, rounds is not None),
                    # On a cluster, this process would embed every case for its order, while workers wait.
                    case_keys=assembly.case_keys if cluster is None and run_case is None else None,
                    keep_going=options.keep_going,
                    only=only,
                )
                async with shown_while_running(folder.home, progress, watcher, client.dispatcher.sent):
                    if rounds is None:
                        finished = await batch.run(_cases_at_once(assembly, options, cluster), stop)
                    else:
                        finished = await _in_rounds(batch, rounds, options, stop)
                session.stopped_by = batch.degraded if batch.spent is None else str(batch.spent)
                if batch.degraded is not None:
                    watcher.notify(degraded_notice(batch.degraded, folder.home, finished=finished))
            finally:
                await client.aclose()
            # Cases that never ran are left to the next session of a run that ended early.
            finished = finished and (only is None or ended_before)
            status = "finished" if finished else "interrupted"
            if finished:
                folder.compact(batch.order)
        finally:
            journal.close()
    except (OSError, JournalError, CallError) as error:
        raise RunStopped(_why_stopped(folder.home, error, options.command)) from error
    finally:
        manifest.status = status
        # A case that was to run again and has not is as it was.
        manifest.counts = Counts.of((known | statuses).values(), len(impaired))
        session.end(progress.usage)
        for role, backend in assembly.backends.items():
            manifest.models[role].learn(backend.abilities)
        session.seconds = round(time.monotonic() - began, 3)
        elsewhere = 0.0 if cluster is None else cluster.processor_seconds
        session.processor_seconds = round(time.process_time() - used_before + elsewhere, 3)
        # The disk may be full; the written lines record the work.
        with contextlib.suppress(OSError):
            folder.save_manifest()
        with contextlib.suppress(OSError):
            record_end(folder.home, status, manifest.counts.total, since(sent_before, so_far()))
    return status


@dataclass(slots=True)
class _Batch:
    """The cases of a session.

    Attributes:
        away: Ids of cases that wait for batches, and are not run in this round.
        pending: Ids of cases that have begun and wait, or are going to.
        reviews: The reviews that count, as the session found them.
        left_out: Whether a case of this round did not begin, for lack of budget.
    """

    folder: RunWriter
    assembly: Assembly
    client: ModelClient
    runner: CaseRunner
    skipped: Collection[str]
    statuses: dict[str, str]
    progress: Progress
    watcher: Watcher
    reviews: Mapping[str, Review]
    admission: Admission
    expected: Expectation
    impaired: set[str]
    ended_well: Mapping[str, str]
    first_cases: FirstCases
    case_keys: CaseKeys | None
    keep_going: bool = True
    degraded: str | None = None
    halted: asyncio.Event = field(default_factory=asyncio.Event)
    spent: BudgetSpent | None = None
    only: Collection[str] | None = None
    order: dict[str, int] = field(default_factory=dict)
    away: Collection[str] = ()
    pending: set[str] = field(default_factory=set)
    left_out: bool = False
    notices: int = 0
    told_of_waiting: bool = False

    async def run(self, cases_at_once: int, stop: asyncio.Event) -> bool:
        """Whether all cases were reached before a stop, and before the budget was spent."""
        waiting = OrderedCases(self._waiting(), self.case_keys, window_size(cases_at_once))
        try:
            work = (self._work(waiting) for _ in range(cases_at_once))
            with _frozen_heap():
                return await all_ended(work, stop, self.halted) and self.spent is None
        finally:
            await waiting.aclose()

    async def _work(self, waiting: OrderedCases) -> None:
        """Take the next case until none is left; workers share the iterator, so memory stays flat."""
        try:
            async for case in waiting:
                if isinstance(case, InvalidCase):
                    self._keep(invalid_case(case, self.assembly.system.results))
                    # A long row of invalid cases must not hold up the event loop.
                    await asyncio.sleep(0)
                else:
                    await self._run(case)
        except BudgetSpent as spent:
            # This worker begins no other case. The cases of the others go on as far as they can.
            self.spent = self.spent or spent

    async def _run(self, case: Case) -> None:
        if case.id not in self.pending:
            if not await self.admission.begin(case.id, wait=self.client.pool is None):
                self.left_out = True
                return
            self.progress.under_way += 1
        result: CaseResult | None = None
        spent: BudgetSpent | None = None
        try:
            result = await self.runner(case, self.reviews.get(case.id))
        except CallPending as pending:
            self.pending.add(case.id)
            self.first_cases.add(degraded_steps(pending.trace), ended=False)
            return
        except BudgetSpent as error:
            spent = error
            raise
        finally:
            self.client.forget(case.id, ended=result is not None)
            if result is not None or case.id not in self.pending:
                self.pending.discard(case.id)
                self.progress.under_way -= 1
                whole = result is not None and result.line["error"] is None
                await self.admission.end(case.id, whole=whole, spent=spent)
        self.expected.ended(result.line["usage"]["calls"])
        self._keep(result)

    def _waiting(self) -> Iterator[Case | InvalidCase]:
        for position, case in enumerate(self.assembly.source):
            self.order[case.id] = position
            if case.id in self.skipped or case.id in self.away:
                continue
            # In a later round, some have ended; a reviewed case may wait for batches as well.
            open_ = case.id not in self.statuses or case.id in self.pending
            if open_ and (self.only is None or case.id in self.only):
                yield case

    def _keep(self, result: CaseResult) -> None:
        case_id, status, error = (result.line[name] for name in ("case_id", "status", "error"))
        if error is not None and case_id in self.impaired:
            # Keep its result, which is better than a failure.
            status, error = self.ended_well[case_id], None
            self.watcher.notify(f"case {case_id} failed this time, so it stays as it was")
        else:
            self.folder.append(result.line, result.trace)
            self.impaired.discard(case_id)
            if is_impaired(result.line, self.assembly.system.impairments):
                self.impaired.add(case_id)
        if self.statuses.get(case_id) == WAITING:
            self.progress.waiting -= 1
        self.statuses[case_id] = f"{FAILED}:{error['class']}" if error else status
        if error is not None:
            self.progress.failed += 1
            self._notify(case_id, error)
        elif status == WAITING:
            if not self.told_of_waiting:
                self.told_of_waiting = True
                self.watcher.notify(f"cases wait for a person: evigraph review {quoted(self.folder.path)}")
            self.progress.waiting += 1
        else:
            self.progress.done += 1
        self.watcher.update(self.progress)
        self.first_cases.add(result.line.get("degraded", ()))
        first = self.first_cases
        if not first.in_rounds and self.check_first_cases() and first.finished < first.cases:
            self.halted.set()

    def check_first_cases(self) -> bool:
        if not self.keep_going:
            self.degraded = self.first_cases.fault()
        return self.degraded is not None

    def _notify(self, case_id: str, error: Line) -> None:
        """Report the first failures at once; the summary reports a dead server's thousands."""
        self.notices += 1
        if self.notices <= MAX_NOTICES:
            self.watcher.notify(f"case {case_id} failed: {error['class']}: {error['message']}")
        if self.notices == MAX_NOTICES:
            self.watcher.notify(f"further failures: evigraph show {quoted(self.folder.path)} --failed")


async def all_ended(work: Iterable[Coroutine[Any, Any, None]], *stops: asyncio.Event) -> bool:
    """Do all of it side by side until it has ended or a stop comes; whether it has ended."""
    workers = [asyncio.create_task(one) for one in work]
    stopped = [asyncio.create_task(stop.wait()) for stop in stops]
    everything: asyncio.Future[Any] = asyncio.gather(*workers)
    try:
        await asyncio.wait({everything, *stopped}, return_when=asyncio.FIRST_COMPLETED)
        if everything.done():
            everything.result()
        return everything.done()
    finally:
        for task in (*stopped, *workers):
            task.cancel()
        await asyncio.gather(*workers, *stopped, everything, return_exceptions=True)


@cache
def heap_was_frozen() -> bool:
    """Whether others had frozen the heap before the first run of this process; counting takes 0.1 s then."""
    return gc.get_freeze_count() > 0


_running: set[object] = set()


@contextlib.contextmanager
def _frozen_heap() -> Iterator[None]:
    """Spare the collector all objects of before: modules and graphs last as long as the run anyway.

    Walking through them took a sixth of the processor time of a run whose models answer at once.
    """
    if heap_was_frozen():
        yield
        return
    this = object()
    if not _running:
        gc.freeze()
    _running.add(this)
    try:
        yield
    finally:
        _running.remove(this)
        if not _running:
            gc.unfreeze()


def _in_this_process(
    assembly: Assembly, client: ModelClient, watcher: Watcher, run_case: RunCase | None
) -> CaseRunner:
    tell = watcher.node if isinstance(watcher, NodeWatcher) else None

    async def run(case: Case, review: Review | None) -> CaseResult:
        if run_case is not None:
            return await run_case(case, client)
        return await assembly.run(case, client, review, tell)

    return run


class _AllDegraded(Exception):
    """The cases of the first round are all degraded, so no further batch is sent."""


def degraded_notice(fault: str, path: Path, *, finished: bool) -> str:
    """The line for people about first cases that are all degraded."""
    check = "check the model: evigraph models check STRING"
    if finished:
        return f"{fault}; {check}"
    return f"stopped: {fault}; {check}; or go on: evigraph resume {quoted(path)} --keep-going"


async def _in_rounds(batch: _Batch, rounds: Rounds, options: Options, stop: asyncio.Event) -> bool:
    """Run in rounds; returns whether no case is left."""

    async def one_pass(away: set[str]) -> bool:
        batch.away, batch.spent, batch.left_out = away, None, False
        batch.first_cases.begin_round()
        reached = await batch.run(options.concurrency or CASES_AT_ONCE, stop)
        rounds.pool.left_open = bool(batch.pending - away) or (batch.left_out and batch.spent is None)
        if batch.check_first_cases() and (batch.pending or not reached):
            raise _AllDegraded
        return reached

    try:
        return await rounds.run(one_pass, stop)
    except _AllDegraded:
        return False


def _ended_well(statuses: Mapping[str, str]) -> dict[str, str]:
    """Statuses of the cases that have a result."""
    return {case_id: status for case_id, status in statuses.items() if not status.startswith(FAILED)}


def _prices(assembly: Assembly, caps: BudgetCaps) -> Prices:
    """The price of each model's calls, which is less in batches."""
    found = {one.name.identity: price_of(one, caps.prices) for one in assembly.backends.values()}
    return {name: price for name, price in found.items() if price is not None}


def _budget(manifest: Manifest, journal: Journal) -> Budget:
    """The rest of the run's budget after its earlier sessions.

    A retry replaces rejected replies in the journal, which the sessions still count: the larger one is right.
    """
    caps = manifest.budget
    stored = journal.tokens()
    by_calls = stored_spend(stored, caps.prices)
    spent = by_calls.largest(Spend(manifest.total_tokens, manifest.total_cost))
    return Budget(caps.max_tokens, caps.max_cost, spent)


def _answered(manifest: Manifest, journal: Journal, budget: Budget) -> dict[str, Spend]:
    """Use of each case's stored calls, which are not paid for again."""
    if not budget.limited:
        return {}
    prices = manifest.budget.prices
    return {case_id: stored_spend(used, prices) for case_id, used in journal.tokens_by_case().items()}


def _cases_at_once(assembly: Assembly, options: Options, cluster: RayCases | None) -> int:
    """Enough cases to fill all servers, as most of the time a case waits for a single reply."""
    wanted, most = options.concurrency or _widest(assembly, options), MAX_CASES_AT_ONCE
    if cluster is not None:
        most = MAX_CASES_ON_A_CLUSTER
        if options.concurrency is None and _has_own_model(assembly):
            # How many workers there will be is not known; each takes what fills its own model.
            wanted = most
    return max(1, min(wanted, most, assembly.manifest.inputs.cases))


def _cases_each(assembly: Assembly, options: Options) -> int:
    """Cases of a worker: only a model in its own process limits them, as others are shared by all."""
    own = _has_own_model(assembly)
    return min(MAX_CASES_AT_ONCE, _widest(assembly, options) if own else MAX_CASES_AT_ONCE)


def _widest(assembly: Assembly, options: Options) -> int:
    return max(
        (options.limits.max_connections or backend.max_connections) * len(backend.servers)
        for backend in assembly.backends.values()
    )


def _has_own_model(assembly: Assembly) -> bool:
    return any(server.in_process for one in assembly.backends.values() for server in one.servers)


def _why_stopped(path: Path, error: Exception, command: str) -> str:
    """Message on an error that ended a session, with the command to continue."""
    if isinstance(error, JournalDamaged):
        return str(error)
    following = "retry" if command == "retry" else "resume"
    again = f"go on with: evigraph {following} {quoted(path)}"
    if command == "rerun":
        again = "run the step again"
    if isinstance(error, CallError):
        return f"{path}: {error}; all that is known is kept, {again}"
    full = getattr(error, "errno", None) == errno.ENOSPC or "disk is full" in str(error)
    reason = "no space left on the device" if full else str(error)
    return f"{path}: cannot write: {reason}; all cases that ended are kept, {again}"
