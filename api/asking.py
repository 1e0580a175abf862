"""The pages on which a person asks a question about a note, and watches the graph answer it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager

from fastapi.sse import format_sse_event
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from access.sessions import signed_in
from api.bodies import Submission
from api.callers import Caller, Rate, Right
from api.events import State, events, has_more, position_of
from api.jobs import Job
from api.problems import Refused
from api.service import NOTE, Service
from cases.formats.json_border import first_fault
from cases.records import Case
from graph.system import find_system
from nodes.verification.support import marked_answer
from runs.record.audit import record_if_possible
from runs.record.case_summary import essential_of
from runs.record.folder import RunFolder
from runs.record.manifest import RunError
from runs.record.trace_file import Line
from viewer.addresses import ServedAddresses
from viewer.case_handlers import fields_of
from viewer.rendering import render


class Asking:
    """Handlers of the pages; who may come in, and from where, is the guard's business."""

    def __init__(self, service: Service, rate: Rate) -> None:
        self._service, self._rate = service, rate
        self._addresses = ServedAddresses(asks=True)

    def routes(self) -> list[Route]:
        return [
            Route("/ask", self._form),
            Route("/ask", self._send, methods=["POST"]),
            Route("/ask/{id}", self._watch),
            Route("/ask/{id}/events", self._events),
            Route("/ask/{id}/cancel", self._cancel, methods=["POST"]),
        ]

    def _form(self, request: Request) -> Response:
        self._caller("submit")
        return HTMLResponse(self._form_page({}))

    async def _send(self, request: Request) -> Response:
        caller = self._caller("submit")
        typed = dict(await fields_of(request))
        if seconds := self._rate.take(caller.name):
            return HTMLResponse(self._form_page(typed, f"Too many requests: wait {seconds:.0f} s."), 429)
        try:
            given = Submission(
                question=typed.get("question", ""),
                note=typed.get("note", "").replace("\r\n", "\n"),
                recipe=typed.get("recipe") or None,
                model=typed.get("model") or None,
            )
            job, _ = await run_in_threadpool(self._service.submit, caller, given, None)
        except ValidationError as error:
            return HTMLResponse(self._form_page(typed, first_fault(error)), 422)
        except Refused as error:
            return HTMLResponse(self._form_page(typed, error.detail), error.status_code)
        return RedirectResponse(f"/ask/{job.record.id}", 303)

    def _watch(self, request: Request) -> Response:
        caller = self._caller("view")
        job = self._job(request, caller)
        status = self._service.status(job)
        ended = self._service.standing(job).ended
        case = next(iter(self._service.read_cases(job)), None)
        if job.record.cases != 1 or case is None or case.id != NOTE:
            # It came by the API, with its own cases.
            return RedirectResponse(self._addresses.run(job.record.id), 303)
        line = steps = None
        if (job.path / "run.json").exists():
            record_if_possible(job.path, "opened", person=caller.name, case=NOTE)
            line, steps = _result(job)
        page = render(
            "ask_run.html",
            addresses=self._addresses,
            status=status,
            ended=ended,
            question=case.question if isinstance(case, Case) else "",
            sentences=case.sentences if isinstance(case, Case) else (),
            nodes=[_node(node.name, steps or ()) for node in find_system(job.record.system).nodes],
            line=line,
            answer=marked_answer(line) if line else (),
            essential=essential_of(line) if line else (),
            case=self._addresses.case(job.record.id, NOTE),
            review=self._addresses.review(job.record.id, NOTE),
            may_submit=caller.name == job.record.submitted_by or caller.may("cancel all"),
        )
        return HTMLResponse(page)

    async def _events(self, request: Request) -> Response:
        caller, person = self._caller("view"), signed_in()
        job = self._job(request, caller)
        since = position_of(request.headers.get("last-event-id"))
        state = await run_in_threadpool(self._service.standing, job)
        if not await run_in_threadpool(has_more, job, since, state):
            return Response(status_code=204)
        self._service.opened_events(caller, job)

        def look() -> State | None:
            return self._service.standing(job) if person is None or person.lasts() else None

        async def stream() -> AsyncIterator[bytes]:
            async for one in events(job, since, self._service.hub, look):
                yield format_sse_event(data_str=json.dumps(one.data), event=one.event, id=one.id)

        place = self._service.hub.place(caller.name, self._service.offer.limits)
        return _Stream(place, stream())

    def _cancel(self, request: Request) -> Response:
        caller = self._caller("submit")
        job = self._job(request, caller)
        try:
            self._service.cancel(caller, job)
        except Refused as error:
            # It has ended meanwhile, which its page says.
            if error.status_code != 409:
                raise
        return RedirectResponse(f"/ask/{job.record.id}", 303)

    def _caller(self, right: Right) -> Caller:
        person = signed_in()
        caller = Caller(self._service.person, "admin") if person is None else Caller(person.name, person.role)
        if not caller.may(right):
            raise HTTPException(403)
        return caller

    def _job(self, request: Request, caller: Caller) -> Job:
        return self._service.job(request.path_params["id"], caller)

    def _form_page(self, typed: dict[str, str], fault: str = "") -> str:
        offer = self._service.offer
        return render(
            "ask.html",
            addresses=self._addresses,
            systems=offer.systems(),
            models=[*offer.models],
            typed=typed,
            fault=fault,
        )


class _Stream(StreamingResponse):
    """Events, for which there has to be a place."""

    def __init__(self, place: AbstractContextManager[None], content: AsyncIterator[bytes]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


def _result(job: Job) -> tuple[Line | None, list[Line]]:
    """Result and trace of the case; empty while it runs, or if the run is damaged."""
    try:
        folder = RunFolder(job.path)
        return folder.case(NOTE), folder.trace(NOTE)
    except RunError:
        return None, []


def _node(name: str, steps: Iterable[Line]) -> dict[str, object]:
    mine = [one for one in steps if one["node"] == name]
    return {
        "name": name,
        "times": len(mine),
        "because": mine[-1]["because"] if mine else "",
        "failed": any(one["error"] for one in mine),
        "seconds": sum(one["seconds"] for one in mine) if mine else None,
    }
