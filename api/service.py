"""Handling of requests from the API and from the page."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

import runs
from api.bodies import (
    MAX_SENTENCES,
    CaseCounts,
    CaseReview,
    CaseState,
    GivenReview,
    NewReview,
    ReviewSentence,
    RunStatus,
    RunUsage,
    SavedReview,
    Status,
    Submission,
    demand_few_values,
)
from api.callers import Caller
from api.events import State
from api.hub import Hub
from api.jobs import Job, Jobs, Record
from api.offer import Choice, Offer
from api.problems import Refused
from api.runner import Runner
from cases.formats.note_files import note_case
from cases.formats.plain_jsonl import jsonl, read_jsonl
from cases.load import find_cases
from cases.records import Case, InvalidCase
from cases.texts import plural
from nodes.evidence.disagreement import contested
from nodes.verification.support import marked_text
from runs.execute.batch import Options
from runs.execute.watcher import Progress
from runs.record.audit import record_if_possible
from runs.record.folder import RunFolder
from runs.record.manifest import WAITING, Counts, Manifest, RunError, utc_now
from runs.record.trace_file import Line
from runs.review.reviewers import Outdated, ReviewedRun, Standing
from runs.review.reviews import is_stale, labels_to_review, make_review
from storage.errors import InputError
from storage.files import json_bytes

Found = TypeVar("Found")

NOTE = "note"
"""The id of a case that came as a question and a note."""
_SUFFIXES = (".jsonl", ".xml", ".json")
_RETRY_AFTER = {"Retry-After": "30"}
MAX_KEY = 200
_MAX_ID = 200
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter(
            "evigraph_http_requests", "Requests", ["method", "route", "status"], registry=own
        )
        self._seconds = Histogram(
            "evigraph_http_request_seconds",
            "Seconds until an answer began",
            ["route"],
            buckets=_SECONDS,
            registry=own,
        )
        self.submitted = Counter("evigraph_cases_submitted", "Cases submitted", registry=own)
        self._runs = Gauge("evigraph_runs", "Runs", ["state"], registry=own)
        self._streams = Gauge("evigraph_event_streams", "Event streams", ["state"], registry=own)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, jobs: Mapping[str, int], streams: int) -> bytes:
        """Metrics, with the numbers of runs by state and of open streams."""
        for state, count in jobs.items():
            self._runs.labels(state).set(count)
        self._streams.labels("open").set(streams)
        return generate_latest(self._registry)


class Service:
    """The jobs, their runs, and what clients may do. Every method may be called from any thread."""

    def __init__(self, jobs: Jobs, offer: Offer, options: Options, person: str) -> None:
        self.jobs, self.offer, self.hub = jobs, offer, Hub()
        self.runner = Runner(jobs, offer, options, self.hub)
        self.person = person
        self.metrics = Metrics()
        self.draining = False
        self._pending: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Resume unfinished jobs.

        Raises:
            ModelError: A server of a model does not start.
        """
        self.runner.start()

    def drain(self, seconds: float) -> None:
        """Take nothing more; let runs end within some seconds, stop the others, and end all streams."""
        self.draining = True
        self.runner.drain(seconds)
        self.hub.close()

    @property
    def ready(self) -> bool:
        return not self.draining and self.runner.alive

    def job(self, id_: str, caller: Caller) -> Job:
        """A job that the caller may read.

        Raises:
            Refused: The id is unknown.
        """
        job = self.jobs.get(id_)
        if job is None or not caller.may_read(job.record.submitted_by):
            raise Refused(404, f"run {id_[:80]!r} not found")
        return job

    def submit(self, caller: Caller, given: Submission, key: str | None) -> tuple[Job, bool]:
        """Take cases in JSON.

        The same submission with the same `key` is taken once.

        Returns:
            The job, and whether it had been submitted before.

        Raises:
            Refused: It cannot be taken, and why.
        """
        choice = self.offer.choose(given.system, given.recipe, given.model, given.settings)
        given_cases = given.cases if given.cases is not None else None if given.case is None else [given.case]
        if given_cases is not None:
            content = b"".join(map(json_bytes, given_cases))
        else:
            try:
                case = note_case(NOTE, given.question or "", given.note or "", "note")
            except InputError as error:
                raise Refused(422, str(error), "/note") from None
            if not case.question:
                raise Refused(422, "question: is empty", "/question")
            content = b"".join(jsonl([case]))
        return self._submit(caller, choice, "cases.jsonl", content, key, strict=True)

    def submit_file(
        self, caller: Caller, choice: Choice, name: str, content: bytes, key: str | None
    ) -> tuple[Job, bool]:
        """Accept a case file; its name determines its format.

        Raises:
            Refused: It cannot be taken, and why.
        """
        suffix = next((one for one in _SUFFIXES if name.lower().endswith(one)), None)
        if suffix is None:
            raise Refused(422, f"the name of the file does not end in {', '.join(_SUFFIXES)}", "/file")
        demand_few_values(content)
        return self._submit(caller, choice, f"cases{suffix}", content, key, strict=False)

    def status(self, job: Job) -> RunStatus:
        """Status of a job.

        Raises:
            Refused: Its run is damaged.
        """
        record, session = job.record, self.runner.session(job)
        manifest, progress = _damaged(job.manifest), session.progress
        sessions = manifest.sessions if manifest is not None else []
        costs = [one.cost for one in sessions if one.cost is not None]
        usage = {
            name: sum(getattr(one, name) for one in sessions)
            for name in ("calls", "replayed", "input_tokens", "output_tokens")
        }
        ended: Progress | Counts = Counts() if manifest is None else manifest.counts
        if progress is not None and session.state == "running":
            ended = progress
            usage = {name: value + getattr(progress.usage, name) for name, value in usage.items()}
            costs += [] if progress.usage.cost is None else [progress.usage.cost]
        return RunStatus(
            id=record.id,
            status=self._status(job, manifest),
            system=record.system,
            recipe=record.recipe,
            model=record.model,
            settings=record.settings,
            submitted_at=record.submitted_at,
            submitted_by=record.submitted_by,
            cases=CaseCounts(
                total=record.cases,
                done=ended.done,
                failed=ended.failed,
                waiting=ended.waiting,
                errors=ended.errors if isinstance(ended, Counts) else {},
            ),
            usage=RunUsage(**usage, cost=sum(costs) if costs else None),
            fault=record.fault or session.fault,
        )

    def standing(self, job: Job) -> State:
        """State of a job, for its stream.

        Raises:
            Refused: Its run is damaged.
        """
        rests = self.runner.session(job).state == "rest"
        found = self.status(job)
        # Jobs stopped by the end of this service continue with the next one, and so do their streams.
        open_ = ("queued", "interrupted") if self.draining else ("queued",)
        return State(
            rests and found.status not in open_, found.model_dump(include={"id", "status", "cases", "fault"})
        )

    def cancel(self, caller: Caller, job: Job) -> RunStatus:
        """End a job for good.

        Raises:
            Refused: It has ended, or is somebody else's.
        """
        if caller.name != job.record.submitted_by and not caller.may("cancel all"):
            raise Refused(403, f"run {job.record.id} is somebody else's; an admin may cancel it")
        found = self.status(job)
        if found.status not in ("queued", "running", "interrupted", "cancelled"):
            raise Refused(409, f"run {job.record.id} has ended: {found.status}")
        if found.status != "cancelled":
            self.runner.cancel(job, caller.name)
        return self.status(job)

    def cases(self, job: Job) -> list[CaseState]:
        """The cases that have ended.

        Raises:
            Refused: The run is damaged.
        """
        folder = self._folder(job)
        if folder is None:
            return []
        return [
            CaseState(case_id=case_id, status=status.partition(":")[0])
            for case_id, status in _damaged(folder.statuses).items()
        ]

    def result(self, caller: Caller, job: Job, case_id: str) -> Line:
        """How a case ended.

        Raises:
            Refused: It has not ended, or is none of the run.
        """
        line = self._line(job, case_id)
        record_if_possible(job.path, "opened", person=caller.name, case=case_id)
        return line

    def review_of(self, caller: Caller, job: Job, case_id: str) -> CaseReview:
        """Content of a case for a reviewer.

        Raises:
            Refused: The case has not ended, or is none of the run.
        """
        line = self.result(caller, job, case_id)
        with runs.open(job.path) as run:
            case = run.case(case_id)
        standing = _seen(ReviewedRun(job.path), caller, case_id)
        labels = labels_to_review(line, standing.last_labels)
        texts = {one.id: one.text for one in case.sentences} if case is not None else {}
        differ = contested(line.get("vote_counts") or {}, line.get("usable_votes") or 0)
        return CaseReview(
            case_id=case_id,
            status=line["status"],
            question=None if case is None else case.question,
            narrative=None if case is None else case.narrative,
            sentences=[
                ReviewSentence(id=id_, text=texts.get(id_), label=labels.get(id_), contested=id_ in differ)
                for id_ in texts or labels
            ],
            answer=line.get("answer"),
            marked_answer=marked_text(line) or None,
            shown=standing.view(line),
            reviews=[
                GivenReview(
                    reviewer=one.reviewer,
                    reviewed_at=one.reviewed_at,
                    says=one.words + (", of an earlier result" if is_stale(one, line) else ""),
                )
                for one in standing.history
            ],
        )

    def review(self, caller: Caller, job: Job, case_id: str, given: NewReview) -> SavedReview:
        """Save a review; a case that was waiting for it continues.

        Raises:
            Refused: It is wrong, or of another result.
        """
        line = self._line(job, case_id)
        reviewed = ReviewedRun(job.path)
        standing = _seen(reviewed, caller, case_id)
        try:
            standing.demand_view(line, given.shown)
            made = make_review(
                line,
                reviewer=caller.name,
                labels=given.labels,
                answer=given.answer,
                comment=given.comment,
                earlier=standing.last_labels,
            )
        except Outdated as error:
            raise Refused(409, str(error), "/shown") from None
        except RunError as error:
            raise Refused(422, str(error)) from None
        reviewed.reviews.add(made)
        waited = line["status"] == WAITING and reviewed.standing(case_id).counting is not None
        goes_on = waited and job.record.closed is None and not self.draining
        if goes_on:
            self.runner.enqueue(job, only_reviewed=True)
        return SavedReview(
            case_id=case_id,
            reviewer=made.reviewer,
            reviewed_at=made.reviewed_at,
            says=made.words,
            goes_on=goes_on,
        )

    def read_cases(self, job: Job) -> Iterator[Case | InvalidCase]:
        """The cases of a job, as they were submitted; none where its file is gone."""
        path = self.jobs.case_file(job.record)
        return iter(find_cases([path])) if path.is_file() else iter(())

    def opened_events(self, caller: Caller, job: Job) -> None:
        if job.path.is_dir():
            record_if_possible(job.path, "opened", person=caller.name, what="events")

    def _submit(
        self, caller: Caller, choice: Choice, name: str, content: bytes, key: str | None, *, strict: bool
    ) -> tuple[Job, bool]:
        if not self.ready:
            raise Refused(503, "the service is about to end; submit again soon", headers=_RETRY_AFTER)
        digest = _digest(choice, name, content)
        if key is None:
            return self._add(caller, choice, name, content, None, digest, strict=strict), False
        if not key or not key.isprintable():
            raise Refused(400, f"Idempotency-Key has 1 to {MAX_KEY} printable characters")
        slot = (caller.name, key)
        with self._lock:
            known = self.jobs.by_key(*slot)
            if known is None and slot in self._pending:
                raise Refused(
                    409,
                    "a submission with this Idempotency-Key is just being taken",
                    headers={"Retry-After": "1"},
                )
            if known is None:
                self._pending.add(slot)
        if known is not None:
            if known.record.digest != digest:
                raise Refused(422, "this Idempotency-Key belongs to another submission; use a new one")
            return known, True
        try:
            return self._add(caller, choice, name, content, key, digest, strict=strict), False
        finally:
            with self._lock:
                self._pending.discard(slot)

    def _add(
        self,
        caller: Caller,
        choice: Choice,
        name: str,
        content: bytes,
        key: str | None,
        digest: str,
        *,
        strict: bool,
    ) -> Job:
        if self.runner.queued_by(caller.name) >= self.offer.limits.queued:
            yours = f"{plural(self.offer.limits.queued, 'run')} of yours"
            raise Refused(429, f"{yours} in the queue already; submit again later", headers=_RETRY_AFTER)
        id_ = self.jobs.new_id()
        try:
            cases = self._checked(id_, name, content, strict=strict)
            job = self.jobs.add(
                Record(
                    id=id_,
                    system=choice.system,
                    recipe=choice.recipe,
                    model=choice.model,
                    settings=dict(choice.settings),
                    file=name,
                    cases=cases,
                    submitted_at=utc_now(),
                    submitted_by=caller.name,
                    key=key,
                    digest=digest,
                )
            )
        except BaseException:
            self.jobs.discard(id_)
            raise
        self.metrics.submitted.inc(cases)
        self.runner.enqueue(job)
        return job

    def _checked(self, id_: str, name: str, content: bytes, *, strict: bool) -> int:
        """Stage the case file; how many cases it has.

        Raises:
            Refused: It cannot be read, or has too many cases; for JSON without an own fault, or for a file
                with only faults.
        """
        path = self.jobs.stage(id_, name, content)
        most = self.offer.limits.cases
        try:
            for place, case in enumerate(read_jsonl(path) if strict else find_cases([path])):
                pointer = f"/cases/{place}" if strict else "/file"
                if place >= most:
                    raise Refused(413, f"a submission has at most {plural(most, 'case')}", pointer)
                if strict and isinstance(case, InvalidCase):
                    raise Refused(422, case.fault.removeprefix(f"line {place + 1}: "), pointer)
                if isinstance(case, Case) and len(case.sentences) > MAX_SENTENCES:
                    raise Refused(
                        413,
                        f"{plural(len(case.sentences), 'sentence')}, of at most {MAX_SENTENCES:,} of a case",
                        pointer,
                    )
                if fault := _id_fault(case.id):
                    raise Refused(422, f"id {case.id[:80]!r} {fault}", pointer)
            found = find_cases([path]).check()
        except InputError as error:
            raise Refused(422, f"{error.fault}. {error.remedy}".removesuffix(". ")) from None
        if not found.cases:
            raise Refused(422, "no case of the file can be used", "/file")
        return found.cases + found.invalid

    def _status(self, job: Job, manifest: Manifest | None) -> Status:
        state = self.runner.session(job).state
        if job.record.closed is not None:
            return job.record.closed
        if state == "running":
            return "running"
        if state == "queued" or manifest is None:
            return "queued"
        return "finished" if manifest.status == "finished" else "interrupted"

    def _folder(self, job: Job) -> RunFolder | None:
        return None if _damaged(job.manifest) is None else _damaged(lambda: RunFolder(job.path))

    def _line(self, job: Job, case_id: str) -> Line:
        folder = self._folder(job)
        line = None if folder is None else _damaged(lambda: folder.case(case_id))
        if line is None:
            raise Refused(404, f"no case {case_id[:80]!r} of run {job.record.id} has ended")
        return line


def _id_fault(id_: str) -> str | None:
    """Why no address can have the id of a case; None if one can."""
    if len(id_) > _MAX_ID:
        return f"has {len(id_):,} characters, of at most {_MAX_ID}"
    if not id_.isprintable():
        return "has a line break or another character that is not printable"
    parts = id_.split("/")
    if {".", ".."} & {*parts} or parts[1:][-1:] == ["review"]:
        return "has a part that means something else in an address: `.`, `..`, or `review` at its end"
    return None


def _seen(reviewed: ReviewedRun, caller: Caller, case_id: str) -> Standing:
    return reviewed.standing(case_id).seen_by(caller.name, admin=caller.role == "admin")


def _damaged(read: Callable[[], Found]) -> Found:
    try:
        return read()
    except RunError as error:
        raise Refused(500, str(error)) from None


def _digest(choice: Choice, name: str, content: bytes) -> str:
    head: list[Any] = [choice.system, choice.recipe, choice.model, choice.settings, name]
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode() + b"\n" + content).hexdigest()
