"""The scheduler: cases side by side, results on disk as they end, a clean stop at any moment."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cases.records import Case, InvalidCase
from nodes.context import Context
from runs.assemble import Assembly
from runs.case_run import CaseResult, invalid_case, run_case, successors
from runs.folder import CALLS, RunWriter
from runs.manifest import Counts, RunStopped, Session, Status
from runs.trace import Line, Successors
from runs.watcher import Progress, Watcher
from serving.client import DEFAULT_MAX_RETRIES, ModelClient
from serving.journal import Journal, JournalError

MAX_CASES_AT_ONCE = 64
MOST_REMARKS = 10


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, as against what; nothing here changes a result.

    Attributes:
        command: What started the session: run, resume or retry.
        concurrency: Cases at once; None follows the model's own limit.
        max_retries: Further attempts of a failed request.
    """

    command: str
    concurrency: int | None = None
    max_retries: int = DEFAULT_MAX_RETRIES


async def run_batch(
    folder: RunWriter,
    assembly: Assembly,
    options: Options,
    *,
    skipped: Collection[str],
    stop: asyncio.Event,
    watcher: Watcher,
) -> Status:
    """Run all cases that are not `skipped`, and leave the folder readable however that ends.

    Raises:
        RunStopped: The folder cannot be written any more; what was done is kept.
    """
    manifest = folder.manifest
    statuses = {case_id: status for case_id, status in folder.statuses().items() if case_id in skipped}
    progress = Progress(
        total=manifest.inputs.cases,
        done=sum(status == "done" for status in statuses.values()),
        failed=sum(status != "done" for status in statuses.values()),
    )
    session = Session(command=options.command, started=_now())
    manifest.sessions.append(session)
    manifest.status = "running"
    status: Status = "stopped"
    try:
        journal = Journal(folder.path / CALLS)
        try:
            client = ModelClient(assembly.backends, journal, options.max_retries, progress.usage)
            folder.save_manifest()
            watcher.update(progress)
            batch = _Batch(folder, assembly, client, skipped, statuses, progress, watcher)
            try:
                finished = await batch.run(_cases_at_once(assembly, options), stop)
            finally:
                await client.aclose()
            status = "finished" if finished else "interrupted"
            if finished:
                folder.compact(batch.order)
        finally:
            journal.close()
    except (OSError, JournalError) as error:
        raise RunStopped(_explain(folder.path, error)) from error
    finally:
        manifest.status = status
        manifest.counts = _counts(statuses)
        session.finished = _now()
        session.calls, session.replayed = progress.usage.calls, progress.usage.replayed
        session.input_tokens = progress.usage.input_tokens
        session.output_tokens = progress.usage.output_tokens
        _save_if_possible(folder)
    return status


@dataclass(slots=True)
class _Batch:
    folder: RunWriter
    assembly: Assembly
    client: ModelClient
    skipped: Collection[str]
    statuses: dict[str, str]
    progress: Progress
    watcher: Watcher
    order: dict[str, int] = field(default_factory=dict)
    remarks: int = 0

    async def run(self, cases_at_once: int, stop: asyncio.Event) -> bool:
        """Whether all cases were reached before a stop."""
        waiting = self._waiting()
        following = successors(self.assembly.graph)
        workers = [asyncio.create_task(self._work(waiting, following)) for _ in range(cases_at_once)]
        stopped: asyncio.Future[Any] = asyncio.create_task(stop.wait())
        everything: asyncio.Future[Any] = asyncio.gather(*workers)
        try:
            await asyncio.wait({everything, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
                return True
            return False
        finally:
            stopped.cancel()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, everything, return_exceptions=True)

    async def _work(self, waiting: Iterator[Case | InvalidCase], following: Successors) -> None:
        """Take the next case until none is left; workers share the iterator, so memory stays flat."""
        for case in waiting:
            if isinstance(case, InvalidCase):
                self._keep(invalid_case(case))
                # A long row of invalid cases must not hold up the event loop.
                await asyncio.sleep(0)
            else:
                context = Context(
                    cases={case.id: case},
                    client=self.client,
                    prompts=self.assembly.prompts,
                    demonstrations=self.assembly.pool,
                    settings=self.assembly.recipe,
                )
                self._keep(await run_case(self.assembly.graph, context, case, following))

    def _waiting(self) -> Iterator[Case | InvalidCase]:
        limit = self.assembly.manifest.inputs.limit
        for position, case in enumerate(self.assembly.source):
            if limit is not None and position >= limit:
                return
            self.order[case.id] = position
            if case.id not in self.skipped:
                yield case

    def _keep(self, result: CaseResult) -> None:
        self.folder.append(result.line, result.trace)
        error = result.line["error"]
        self.statuses[result.line["case_id"]] = f"failed:{error['class']}" if error else "done"
        if error is None:
            self.progress.done += 1
        else:
            self.progress.failed += 1
            self._remark(result.line["case_id"], error)
        self.watcher.update(self.progress)

    def _remark(self, case_id: str, error: Line) -> None:
        """Tell of the first failures at once; of a dead server's thousands the summary tells."""
        self.remarks += 1
        if self.remarks <= MOST_REMARKS:
            self.watcher.remark(f"case {case_id} failed: {error['class']}: {error['message']}")
        if self.remarks == MOST_REMARKS:
            self.watcher.remark(f"further failures: evigraph show {self.folder.path} --failed")


def _cases_at_once(assembly: Assembly, options: Options) -> int:
    wanted = options.concurrency or max(backend.max_connections for backend in assembly.backends.values())
    return max(1, min(wanted, MAX_CASES_AT_ONCE, assembly.manifest.inputs.cases))


def _counts(statuses: dict[str, str]) -> Counts:
    failed = Counter(status.partition(":")[2] for status in statuses.values() if status != "done")
    return Counts(
        done=len(statuses) - failed.total(), failed=failed.total(), errors=dict(sorted(failed.items()))
    )


def _save_if_possible(folder: RunWriter) -> None:
    try:
        folder.save_manifest()
    except OSError:
        # The disk may be full; the lines that were written say what was done.
        return


def _explain(path: Path, error: Exception) -> str:
    full = getattr(error, "errno", None) == errno.ENOSPC or "disk is full" in str(error)
    reason = "no space left on the device" if full else str(error)
    return (
        f"{path}: cannot write: {reason}; all cases that ended are kept, go on with: evigraph resume {path}"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
