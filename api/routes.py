"""The endpoints of the API: rights, requests, responses."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.sse import EventSourceResponse, ServerSentEvent
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.bodies import (
    CASE,
    CaseList,
    CaseResult,
    CaseReview,
    Choices,
    Health,
    NewReview,
    OfferedRecipe,
    RunList,
    RunStatus,
    SavedReview,
    Submission,
    UploadedCases,
    parsed,
)
from api.callers import Caller, Rate, Right, Tokens
from api.events import State, events, has_more, position_of
from api.jobs import Job
from api.problems import Problem, Refused, described, install
from api.service import MAX_KEY, Service
from cases.formats.plain_jsonl import case_schema

_ABOUT = """
Submit cases, watch how they are answered, read and review the results. Every run is an ordinary Evigraph run
folder. Errors are problem details (RFC 9457).

Send the token of your user as `Authorization: Bearer TOKEN`. Roles: `view` reads all runs; `submit` submits,
reads and cancels its own runs; `review` reads and reviews all runs; `admin` does all of it.
"""
_TAGS = [
    {"name": "runs", "description": "Submit cases, follow them, cancel."},
    {"name": "cases", "description": "Results, and reviews by people."},
    {"name": "service", "description": "Offered choices, and health of the service."},
]
_MAX_PAGE = 100
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_SUBMITTED: dict[str, Any] = {
    "headers": {
        "Location": {"description": "Where its status is.", "schema": {"type": "string"}},
        "Idempotent-Replayed": {
            "description": "`true` where the submission had been taken before.",
            "schema": {"type": "string"},
        },
    },
}

_OF_A_RUN = described(401, 403, 404, 422, 429, 500)

Id = Annotated[str, Path(description="Id of the run.", examples=["20261123T041500-0a1b2c3d4e5f"])]
CaseId = Annotated[str, Path(description="Id of the case, percent-encoded.", min_length=1)]


class _Door:
    """Finds out who calls, and whether they may."""

    def __init__(self, tokens: Tokens, rate: Rate) -> None:
        self.tokens, self._rate = tokens, rate
        # Parsers hold the interpreter: several at once would leave nothing for other requests.
        self.parsing = asyncio.Semaphore(1)

    def needs(self, right: Right) -> Callable[..., Any]:
        """A dependency that gives the caller, who has this right."""
        bearer = HTTPBearer(
            auto_error=False, scheme_name="token", description="A token of `evigraph users add`."
        )

        async def caller(
            request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
        ) -> Caller:
            if given is None:
                raise Refused(401, "send Authorization: Bearer TOKEN", headers={"WWW-Authenticate": "Bearer"})
            address = request.client.host if request.client is not None else ""
            found = await self.tokens.caller(given.credentials, address)
            if found is None:
                raise Refused(
                    401,
                    "the token is not known",
                    headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
                )
            if seconds := self._rate.take(found.name):
                raise Refused(429, "too many requests", headers={"Retry-After": str(max(1, round(seconds)))})
            if not found.may(right):
                raise Refused(403, f"role {found.role!r} may not do this; it needs the right to {right}")
            return found

        return caller


def application(service: Service, tokens: Tokens, rate: Rate) -> ASGIApp:
    """The API."""
    app = FastAPI(
        title="Evigraph",
        summary="Clinical questions answered from given evidence, by graphs of language-model calls.",
        description=_ABOUT,
        version=version("evigraph"),
        openapi_url="/v1/openapi.json",
        openapi_tags=_TAGS,
        # Their pages would fetch scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # It would follow the environment to any exporter.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    install(app)
    door = _Door(tokens, rate)
    _add_runs(app, service, door)
    _add_events(app, service, door)
    _add_cases(app, service, door)
    _add_service(app, service, door)
    _describe(app)
    return _Counted(app, service)


def _add_runs(app: FastAPI, service: Service, door: _Door) -> None:
    view, submit = door.needs("view"), door.needs("submit")

    @app.post(
        "/v1/runs",
        tags=["runs"],
        status_code=202,
        summary="Submit cases",
        response_model=RunStatus,
        responses={202: _SUBMITTED, **described(400, 401, 403, 409, 413, 415, 422, 429, 503)},
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    **_json_schema(Submission),
                    "multipart/form-data": {"schema": {"$ref": "#/components/schemas/UploadedCases"}},
                },
            }
        },
    )
    async def submit_run(
        request: Request,
        response: Response,
        caller: Annotated[Caller, Depends(submit)],
        idempotency_key: Annotated[
            str | None,
            Header(
                description="The same submission with the same key is taken once, also after a restart.",
                max_length=MAX_KEY,
            ),
        ] = None,
    ) -> RunStatus:
        """Take one case, several, a question on a note, or a case file; they run when their turn comes."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            body = await _content(request)
            async with door.parsing:
                given = await run_in_threadpool(parsed, Submission, body, service.offer.limits.cases)
                job, again = await run_in_threadpool(service.submit, caller, given, idempotency_key)
        elif kind == "multipart/form-data":
            job, again = await _submit_form(request, service, door, caller, idempotency_key)
        else:
            raise Refused(415, "send application/json, or multipart/form-data with a case file")
        response.headers["Location"] = f"/v1/runs/{job.record.id}"
        if again:
            response.headers["Idempotent-Replayed"] = "true"
        return service.status(job)

    @app.get("/v1/runs", tags=["runs"], summary="List runs", responses=described(401, 403, 422, 429))
    async def list_runs(
        caller: Annotated[Caller, Depends(view)],
        limit: Annotated[int, Query(ge=1, le=_MAX_PAGE, description="How many.")] = 20,
        before: Annotated[
            str | None, Query(description="Only those behind this one: `next` of a list.")
        ] = None,
    ) -> RunList:
        """The runs that the caller may read, newest first."""
        return await run_in_threadpool(_listed, service, caller, limit, before)

    @app.get("/v1/runs/{id}", tags=["runs"], summary="Status of a run", responses=_OF_A_RUN)
    async def get_run(id: Id, caller: Annotated[Caller, Depends(view)]) -> RunStatus:
        """Its status, counts and usage; no text of a case."""
        return service.status(service.job(id, caller))

    @app.post(
        "/v1/runs/{id}/cancel", tags=["runs"], summary="Cancel a run", responses=_OF_A_RUN | described(409)
    )
    async def cancel_run(id: Id, caller: Annotated[Caller, Depends(submit)]) -> RunStatus:
        """End a run for good. Cases that have ended are kept; `evigraph resume` can still go on by hand."""
        return await run_in_threadpool(service.cancel, caller, service.job(id, caller))


def _add_events(app: FastAPI, service: Service, door: _Door) -> None:
    view = door.needs("view")

    async def watched(
        id: Id,
        caller: Annotated[Caller, Depends(view)],
        last_event_id: Annotated[
            str | None, Header(description="Id of the last event that was seen: go on behind it.")
        ] = None,
    ) -> AsyncIterator[tuple[Job, Caller, str | None]]:
        job = service.job(id, caller)
        with service.hub.place(caller.name, service.offer.limits):
            state = await run_in_threadpool(service.standing, job)
            if not await run_in_threadpool(has_more, job, position_of(last_event_id), state):
                # Browsers come back after every other answer.
                raise _Nothing
            await run_in_threadpool(service.opened_events, caller, job)
            yield job, caller, last_event_id

    @app.get(
        "/v1/runs/{id}/events",
        tags=["runs"],
        summary="Watch a run",
        response_class=EventSourceResponse,
        responses={
            200: {"description": "Events `decision`, `case`, `step` and, as the last one, `end`."},
            204: {"description": "The end has been seen, and there is nothing behind it."},
            **_OF_A_RUN,
            **described(503),
        },
    )
    async def watch_run(
        found: Annotated[tuple[Job, Caller, str | None], Depends(watched)],
    ) -> AsyncIterator[ServerSentEvent]:
        """Server-sent events until the run ends.

        `decision` is a line of the run's trace: a node's choice, its options and reasons; `case` is the
        result of a case. Both are sent once they are on disk, and have ids: with `Last-Event-ID` a client
        continues where it was, even after a restart of the service. `step` reports at once that a node has
        begun or ended; it lacks an id and is not repeated. `end` has the status of the run.
        """
        job, caller, last_event_id = found

        def look() -> State | None:
            return service.standing(job) if door.tokens.valid(caller) else None

        async for event in events(job, position_of(last_event_id), service.hub, look):
            yield event


def _add_cases(app: FastAPI, service: Service, door: _Door) -> None:
    view, review = door.needs("view"), door.needs("review")

    @app.get("/v1/runs/{id}/cases", tags=["cases"], summary="List cases", responses=_OF_A_RUN)
    async def list_cases(id: Id, caller: Annotated[Caller, Depends(view)]) -> CaseList:
        """The cases that have ended, with how."""
        return CaseList(cases=await run_in_threadpool(service.cases, service.job(id, caller)))

    # Ids of cases may have slashes, so the longer path has to be tried first.
    @app.get(
        "/v1/runs/{id}/cases/{case:path}/review",
        tags=["cases"],
        summary="Content of a case for a reviewer",
        responses=_OF_A_RUN,
    )
    async def get_review(id: Id, case: CaseId, caller: Annotated[Caller, Depends(review)]) -> CaseReview:
        """Question, sentences with their labels, the answer, and the reviews so far."""
        return await run_in_threadpool(service.review_of, caller, service.job(id, caller), case)

    @app.post(
        "/v1/runs/{id}/cases/{case:path}/review",
        tags=["cases"],
        summary="Review a case",
        status_code=201,
        responses=_OF_A_RUN | described(400, 409, 413),
        openapi_extra={"requestBody": {"required": True, "content": _json_schema(NewReview)}},
    )
    async def add_review(
        request: Request, id: Id, case: CaseId, caller: Annotated[Caller, Depends(review)]
    ) -> SavedReview:
        """Save labels, an answer, a comment. A case that was waiting for its labels continues at once."""
        body = await _content(request)
        async with door.parsing:
            given = await run_in_threadpool(parsed, NewReview, body, 0)
        return await run_in_threadpool(service.review, caller, service.job(id, caller), case, given)

    @app.get(
        "/v1/runs/{id}/cases/{case:path}",
        tags=["cases"],
        summary="Result of a case",
        response_model=CaseResult,
        responses=_OF_A_RUN,
    )
    async def get_case(id: Id, case: CaseId, caller: Annotated[Caller, Depends(view)]) -> dict[str, Any]:
        """Labels, answer, flags and whatever else its system has to say."""
        return await run_in_threadpool(service.result, caller, service.job(id, caller), case)


def _add_service(app: FastAPI, service: Service, door: _Door) -> None:
    view = door.needs("view")

    @app.get("/v1/choices", tags=["service"], summary="Offered choices", responses=described(401, 403, 429))
    async def choices(caller: Annotated[Caller, Depends(view)]) -> Choices:
        """Recipes, models and settings that a submission may choose, and its limits."""
        offer = service.offer
        return Choices(
            recipes=[
                OfferedRecipe(recipe=name, system=system)
                for system, names in offer.systems().items()
                for name in names
            ],
            models=[*offer.models],
            settings={name: [*words] for name, words in sorted(offer.settings.items())},
            cases=offer.limits.cases,
            bytes=offer.limits.body,
        )

    @app.get("/healthz", tags=["service"], summary="Whether the process is alive")
    async def healthz() -> Health:
        """Always, while it answers at all."""
        return Health(status="ok")

    @app.get("/readyz", tags=["service"], summary="Whether submissions are taken", responses=described(503))
    async def readyz() -> Health:
        """503 while the service ends."""
        if not service.ready:
            raise Refused(503, "the service is about to end, or its runs have")
        return Health(status="ok")

    @app.get(
        "/metrics",
        tags=["service"],
        summary="Metrics for Prometheus",
        response_class=PlainTextResponse,
        responses=described(401, 403, 429),
    )
    async def metrics(caller: Annotated[Caller, Depends(view)]) -> Response:
        """Requests, runs, streams; no label holds an id, a name or a text."""
        text = service.metrics.text(service.runner.counts(), service.hub.streams)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(_Nothing)
    async def nothing(_: Request, __: Exception) -> Response:
        return Response(status_code=204)


class _Nothing(Exception):
    """There is nothing to stream."""


async def _content(request: Request) -> bytearray:
    """The body; Starlette's own way holds it twice."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
    return content


async def _submit_form(
    request: Request, service: Service, door: _Door, caller: Caller, key: str | None
) -> tuple[Job, bool]:
    async with request.form(max_files=1, max_fields=8) as form:
        known = UploadedCases.model_fields.keys()
        unknown = next((name for name in form if name not in known), None)
        if unknown is not None:
            raise Refused(422, f"unknown field {unknown[:80]!r}; known: {', '.join(known)}")
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Refused(422, "send the case file as the field `file`", "/file")
        texts = {name: value for name, value in form.items() if isinstance(value, str)}
        try:
            settings = json.loads(texts.get("settings") or "{}")
        except (ValueError, RecursionError):
            settings = None
        if not isinstance(settings, dict) or any(isinstance(one, dict | list) for one in settings.values()):
            raise Refused(422, "settings: an object of plain values, as JSON", "/settings")
        choice = service.offer.choose(texts.get("system"), texts.get("recipe"), texts.get("model"), settings)
        name, content = file.filename or "", await file.read()
    async with door.parsing:
        return await run_in_threadpool(service.submit_file, caller, choice, name, content, key)


def _listed(service: Service, caller: Caller, limit: int, before: str | None) -> RunList:
    found = [
        job
        for job in reversed(service.jobs.all())
        if (before is None or job.record.id < before) and caller.may_read(job.record.submitted_by)
    ]
    page = found[:limit]
    return RunList(
        runs=[service.status(job) for job in page],
        next=page[-1].record.id if len(found) > limit else None,
    )


def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}


def _describe(app: FastAPI) -> None:
    """Add to the description what no endpoint's signature names."""
    document = app.openapi()
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for model in (Submission, NewReview, UploadedCases, Problem):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    case = case_schema("#/components/schemas/{model}")
    schemas.update(case.pop("$defs"))
    schemas[CASE] = case
    given = schemas[Submission.__name__]["properties"]
    for place in (given["case"]["anyOf"], given["cases"]["anyOf"]):
        place[0] = _with_case(place[0])
    # Theirs are problem details, described at each endpoint.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)


def _with_case(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("title") == CASE:
        return {"$ref": f"#/components/schemas/{CASE}"}
    return schema | {"items": _with_case(schema["items"])}


class _Counted:
    """Outermost: counts requests and their bytes, and sets headers on every answer."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, taken, most = time.perf_counter(), 0, self._service.offer.limits.body
        announced = dict(scope["headers"]).get(b"content-length", b"0")

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            # A body with a large declared length is rejected before it is read.
            if taken > most or not announced.isdigit() or int(announced[:18]) > most:
                raise Refused(413, f"a request has at most {most:,} bytes")
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
                route = getattr(scope.get("route"), "path_format", "other")
                seconds = time.perf_counter() - began
                self._service.metrics.request(scope["method"], route, message["status"], seconds)
            await send(message)

        await self._app(scope, limited, counted)
