"""Runs the jobs, a few at a time, in a separate thread and loop, by the sessions of `evigraph run`.

All that has to be known after a kill is in the folders of the jobs: `start` takes up whatever has not ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import Any

from api.hub import Hub
from api.jobs import Closed, Job, Jobs
from api.offer import Offer
from api.problems import Refused
from cases.texts import printable
from nodes.core.recipe import RecipeError
from prompts import PromptError
from ranking.errors import RankerError
from runs.execute.batch import Options
from runs.execute.servers import Servers
from runs.execute.sessions import resume, reviewed_waiting, start
from runs.execute.watcher import Progress
from runs.record.audit import act_for, record_if_possible
from runs.record.folder import RunFolder
from runs.record.manifest import RunError, RunStopped
from serving.journal.journal import JournalError
from serving.policy.traffic import count_apart
from serving.protocol.errors import CallError, ModelError
from storage.errors import InputError
from weights.registry import WeightsError

logger = logging.getLogger("evigraph.api")

_EXPECTED = (
    *(InputError, RecipeError, PromptError, RankerError, ModelError, WeightsError, CallError),
    *(RunError, RunStopped, JournalError, Refused, OSError),
)
_DESCRIPTORS_WAIT = 5.0
"""Seconds until a job that has found no free file descriptor tries to go on."""
_LAST_WORDS = 30.0
"""Seconds that runs may take to stop; a case that is cut off is run again on replayed calls."""


@dataclass(slots=True)
class Session:
    """A job in this process.

    Attributes:
        state: `queued` for its turn, `running`, or at `rest`.
        fault: Why its last session could not continue, in a line; a restart tries again.
        progress: Counts of the current session.
        only_reviewed: Whether it continues only with reviewed cases.
        lacks_descriptors: Whether its last session ended for lack of file descriptors.
        cancelled_by: Who cancelled it while it ran, for its log, which may not be there yet.
    """

    state: str = "rest"
    fault: str = ""
    progress: Progress | None = None
    only_reviewed: bool = False
    again: bool = False
    lacks_descriptors: bool = False
    cancelled: bool = False
    cancelled_by: str = ""
    stop: asyncio.Event | None = None


@dataclass(slots=True)
class _Watcher:
    """Passes on events of a run."""

    job: Job
    session: Session
    hub: Hub

    def notify(self, text: str) -> None:
        logger.info("%s: %s", self.job.record.id, text)

    def update(self, progress: Progress) -> None:
        # A copy, because the thread of requests reads it.
        self.session.progress = replace(progress, usage=replace(progress.usage))
        self.hub.tell(self.job.record.id)

    def node(self, case_id: str, known: dict[str, Any]) -> None:
        if not known["node"].startswith("__"):
            self.hub.tell(self.job.record.id, {"case_id": case_id, **known})


class Runner:
    """The queue and the runs. Any thread may call every method."""

    def __init__(self, jobs: Jobs, offer: Offer, options: Options, hub: Hub) -> None:
        self._jobs, self._offer, self._options, self._hub = jobs, offer, options, hub
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run_thread, name="runs")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._places = asyncio.Semaphore(offer.limits.running)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._draining = False

    def start(self) -> None:
        """Start the thread and the servers of models without an address, and resume unfinished jobs.

        Raises:
            ModelError: A server of a model does not start.
        """
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        for job in self._jobs.all():
            if self._is_open(job):
                self.enqueue(job)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._draining

    def session(self, job: Job) -> Session:
        with self._lock:
            return self._sessions.setdefault(job.record.id, Session())

    def counts(self) -> dict[str, int]:
        with self._lock:
            states = [one.state for one in self._sessions.values()]
        return {state: states.count(state) for state in ("queued", "running")}

    def queued_by(self, submitter: str) -> int:
        with self._lock:
            queued = [id_ for id_, one in self._sessions.items() if one.state == "queued"]
        jobs = map(self._jobs.get, queued)
        return sum(job is not None and job.record.submitted_by == submitter for job in jobs)

    def enqueue(self, job: Job, *, only_reviewed: bool = False) -> None:
        """Let a job run when its turn comes; one that runs is looked at again when it ends."""
        session = self.session(job)
        with self._lock:
            if session.state != "rest":
                session.again = True
                return
            session.state, session.only_reviewed, session.fault = "queued", only_reviewed, ""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._begin, job, session)

    def cancel(self, job: Job, person: str) -> None:
        """End a job for good; cases that have ended are kept. The log of its run says who did it.

        Raises:
            OSError: That cannot be written.
        """
        session = self.session(job)
        with self._lock:
            session.cancelled, stop = True, session.stop
            session.cancelled_by = person if stop is not None else ""
        self._jobs.close_job(job, "cancelled", "")
        if self._loop is not None and stop is not None:
            self._loop.call_soon_threadsafe(stop.set)
        elif job.path.is_dir():
            record_if_possible(job.path, "cancelled", person=person)
        self._hub.tell(job.record.id)

    def drain(self, seconds: float) -> None:
        """Start no further run, let current ones end within some seconds, and then stop the rest."""
        self._draining = True
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end_soon, seconds)
            self._thread.join()

    def _is_open(self, job: Job) -> bool:
        if job.record.closed is not None:
            return False
        try:
            manifest = job.manifest()
            return manifest is None or manifest.status != "finished" or bool(self._reviewed(job))
        except RunError as error:
            self.session(job).fault = printable(str(error))
            return False

    def _reviewed(self, job: Job) -> set[str]:
        return reviewed_waiting(RunFolder(job.path)) if (job.path / "reviews.jsonl").exists() else set()

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._last: asyncio.Task[None] | None = None
        with Servers(lambda text: logger.info("%s", text), self._ending) as servers:
            self._servers = servers
            # Before the first job: two jobs at once would start two servers.
            for name in self._offer.models:
                await servers.addresses(self._offer.assigned(name).values())
            self._ready.set()
            await self._ending.wait()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end_soon(self, seconds: float) -> None:
        self._last = asyncio.create_task(self._end(seconds))

    async def _end(self, seconds: float) -> None:
        await self._ended_within(seconds)
        with self._lock:
            stops = [one.stop for one in self._sessions.values() if one.stop is not None]
        for stop in stops:
            stop.set()
        await self._ended_within(_LAST_WORDS)
        for task in self._tasks:
            task.cancel()
        self._ending.set()

    async def _ended_within(self, seconds: float) -> None:
        if running := {task for task in self._tasks if not task.done()}:
            await asyncio.wait(running, timeout=seconds)

    def _begin(self, job: Job, session: Session) -> None:
        task = asyncio.create_task(self._work(job, session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, job: Job, session: Session) -> None:
        act_for(job.record.submitted_by)
        count_apart()
        async with self._places:
            while not self._draining and not session.cancelled:
                stop = asyncio.Event()
                with self._lock:
                    session.state, session.again, session.stop = "running", False, stop
                await self._session(job, session, stop)
                if session.lacks_descriptors:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), _DESCRIPTORS_WAIT)
                    continue
                with self._lock:
                    session.stop = None
                    if not session.again:
                        session.state = "rest"
                        break
                if not self._reviewed(job):
                    break
                session.only_reviewed = True
        with self._lock:
            session.state, session.progress = "rest", None
        if session.cancelled_by and job.path.is_dir():
            record_if_possible(job.path, "cancelled", person=session.cancelled_by)
        self._hub.forget(job.record.id)
        self._hub.tell(job.record.id)

    async def _session(self, job: Job, session: Session, stop: asyncio.Event) -> None:
        begun = (job.path / "run.json").exists()
        watcher = _Watcher(job, session, self._hub)
        session.fault, session.lacks_descriptors = "", False
        try:
            if begun:
                # As they are named now, for an address may be new; those of the run where none is offered.
                offered = job.record.model in self._offer.models
                folder = await resume(
                    job.path,
                    replace(self._options, command="resume"),
                    recipe=None,
                    models=self._offer.assigned(job.record.model) if offered else None,
                    stop=stop,
                    watcher=watcher,
                    servers=self._servers,
                    only_reviewed=session.only_reviewed,
                )
            else:
                request = self._offer.request(job.record, self._jobs.case_file(job.record))
                folder = await start(
                    request, job.path, self._options, stop=stop, watcher=watcher, servers=self._servers
                )
            if folder.manifest.status != "finished" and (spent := folder.manifest.sessions[-1].stopped_by):
                self._close(job, "stopped", spent)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
            # Chroma panics where it gets no descriptor, and its panics are not subclasses of `Exception`.
            session.lacks_descriptors = _lacks_descriptors(error)
            if isinstance(error, _EXPECTED) or session.lacks_descriptors:
                session.fault = _line(error)
                logger.warning("%s: %s", job.record.id, session.fault)
            else:
                session.fault = f"internal error: {type(error).__name__}"
                logger.exception("%s: internal error", job.record.id)
            never_began = not begun and not (job.path / "run.json").exists()
            if never_began and not stop.is_set() and not session.lacks_descriptors:
                self._close(job, "failed", session.fault)

    def _close(self, job: Job, how: Closed, fault: str) -> None:
        if job.record.closed is None:
            self._jobs.close_job(job, how, fault)


def _lacks_descriptors(error: BaseException | None) -> bool:
    """Whether an error came from a limit of open files, of this process or of the machine."""
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    if not isinstance(error, Exception) and os.strerror(errno.EMFILE) in str(error):
        return True
    causes = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return any(map(_lacks_descriptors, (*causes, error.__cause__ or error.__context__)))


def _line(error: BaseException) -> str:
    text = error.detail if isinstance(error, Refused) else str(error)
    return printable(" ".join(text.split()))
