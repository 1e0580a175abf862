"""The pages over HTTP. Requests are served in threads, because reading a run takes time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from access.guard import Guard, LinkDoor
from access.sessions import signed_in
from cases.texts import plural
from evals.compare.matrix import LETTERS
from graph.system import UnknownSystem
from ranking.errors import RankerError
from runs.record.manifest import RunError
from serving.journal.journal import JournalError
from storage.errors import InputError
from viewer.addresses import ServedAddresses
from viewer.blind_handlers import Blind, BlindServer
from viewer.case_handlers import Reviewing, Verifying, open_case, parameter, reviewer_of
from viewer.deciding import Deciding
from viewer.going_on import GoingOn
from viewer.library import Library, named
from viewer.opened_run import OpenedRun
from viewer.pages.case import call_page
from viewer.pages.compare import (
    KINDS,
    RunDifferences,
    Side,
    compare,
    compare_case_page,
    compare_page,
    matrix_page,
    read_matrix,
)
from viewer.pages.runs import ListedRun, ReviewLinks, listed, rows_document, run_page, runs_page
from viewer.rendering import assets, render
from viewer.signing_in import SigningIn
from weights.registry import WeightsError

_MIN_GZIP = 2_000
_GZIP_LEVEL = 5
_EXPLAINED = (403, 404, 413, 415)
"""Our own refusals, whose messages are shown."""
_MAX_CACHED = 16
"""Runs whose encoded rows are cached; those of 10,000 cases take 0.6 MB."""

Handler = Callable[[Request], Response]


class Server:
    """Handlers of the pages of a library of runs."""

    def __init__(self, library: Library, ranker: str, going_on: GoingOn, addresses: ServedAddresses) -> None:
        self._library = library
        self._named = partial(named, library)
        self._addresses = addresses
        self._reviewing = Reviewing(self._named, self._library.name_of, self._addresses, going_on)
        self._deciding = Deciding(self._named, self._addresses, going_on)
        self._verifying = Verifying(self._named, self._addresses, ranker)
        self._rows: dict[str, tuple[tuple[int, str, str], bytes]] = {}
        self._compared: tuple[tuple[str, str, int, int], RunDifferences] | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/", self._runs),
            # Browsers request it on their own.
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Route("/runs/{run}", self._run),
            Route("/runs/{run}/rows.json", self._rows_of_run),
            Route("/runs/{run}/case", self._reviewing.case),
            Route("/runs/{run}/review", self._reviewing.form),
            Route("/runs/{run}/review", self._reviewing.send, methods=["POST"]),
            Route("/runs/{run}/state", self._reviewing.state),
            Route("/runs/{run}/gold.jsonl", self._reviewing.gold),
            Route("/runs/{run}/reviewers", self._deciding.reviewers),
            Route("/runs/{run}/reviewers", self._deciding.assign, methods=["POST"]),
            Route("/runs/{run}/key.json", self._deciding.key),
            Route("/runs/{run}/adjudicate", self._deciding.form),
            Route("/runs/{run}/adjudicate", self._deciding.send, methods=["POST"]),
            Route("/runs/{run}/call", self._call),
            Route("/runs/{run}/verify", self._verifying.page),
            Route("/compare", self._compare),
            Route("/compare/case", self._compare_case),
        ]

    def _runs(self, _: Request) -> Response:
        return HTMLResponse(
            runs_page([self._listed(name) for name in self._library.names()], self._addresses)
        )

    def _listed(self, name: str) -> ListedRun:
        run = self._library.get(name)
        if run is None:
            return ListedRun(name, name, fault="the folder is gone")
        try:
            return listed(name, run.path, *run.totals(), run.answers())
        except (RunError, UnknownSystem) as error:
            return ListedRun(name, str(run.path), fault=str(error))

    def _run(self, request: Request) -> Response:
        name, run = self._asked(request)
        totals = run.totals()[1]
        person = signed_in()
        links = ReviewLinks(
            self._addresses.next_review(name) if person is None or person.may("review") else None,
            self._addresses.gold(name) if person is None or person.may("admin") else None,
            self._addresses.reviewers(name),
        )
        page = run_page(
            name,
            run.path,
            run.ended(),
            totals,
            self._addresses,
            review_links=links,
            answers=run.answers(),
        )
        return HTMLResponse(page)

    def _rows_of_run(self, request: Request) -> Response:
        name, run = self._asked(request)
        since = request.query_params.get("since", "0")
        ended = run.ended()
        # All rows of a large run take long to encode; where nothing is under way, that happens once.
        known = self._rows.get(name)
        if not since.isdecimal() or int(since[:18]) == 0:
            version = ended.revision, ended.manifest.status, ended.reviews.version
            if known is None or known[0] != version or ended.progress is not None:
                body = orjson.dumps(rows_document(name, ended, 0, self._addresses))
                if len(self._rows) >= _MAX_CACHED:
                    self._rows.clear()
                known = self._rows[name] = version, body
            return Response(known[1], media_type="application/json")
        seen = request.query_params.get("reviews")
        body = orjson.dumps(rows_document(name, ended, int(since[:18]), self._addresses, seen))
        return Response(body, media_type="application/json")

    def _call(self, request: Request) -> Response:
        name, run = self._asked(request)
        case_id, key = parameter(request, "id"), parameter(request, "key")
        with run.reading() as reading:
            open_case(reading, case_id, reviewer_of(request))
            return HTMLResponse(call_page(reading, name, case_id, key, self._addresses))

    def _compare(self, request: Request) -> Response:
        kind, page = request.query_params.get("kind"), request.query_params.get("page", "1")
        wanted = next((known for known in KINDS if known == kind), None)
        with self._asked_sides(request, len(LETTERS)) as sides:
            if len(sides) > 2:
                return HTMLResponse(matrix_page(read_matrix(sides), self._addresses))
            one, other = sides
            key = (one.name, other.name, one.run.revision, other.run.revision)
            if self._compared is None or self._compared[0] != key:
                self._compared = key, compare(one.run, other.run)
            number = int(page[:9]) if page.isdecimal() else 1
            differences = self._compared[1]
            return HTMLResponse(
                compare_page(one, other, differences, self._addresses, kind=wanted, page=number)
            )

    def _compare_case(self, request: Request) -> Response:
        case_id = parameter(request, "id")
        with self._asked_sides(request, 2) as (one, other):
            for side in (one, other):
                open_case(side.run, case_id, reviewer_of(request))
            return HTMLResponse(compare_case_page(one, other, case_id, self._addresses))

    @contextmanager
    def _asked_sides(self, request: Request, most: int) -> Iterator[list[Side]]:
        """The runs in the order given, locked in the order of their names: two requests cannot deadlock."""
        names = request.query_params.getlist("run")
        if not 2 <= len(names) <= most or len({*names}) < len(names):
            raise HTTPException(
                404,
                "Choose two runs to compare."
                if most == 2
                else f"Choose 2 to {plural(most, 'run')} to compare.",
            )
        with ExitStack() as stack:
            opened = {name: stack.enter_context(self._named(name).reading()) for name in sorted(names)}
            yield [Side(name, opened[name]) for name in names]

    def _asked(self, request: Request) -> tuple[str, OpenedRun]:
        name = request.path_params["run"]
        return name, self._named(name)


def application(
    library: Library,
    port: int,
    token: str,
    names: Iterable[str] = (),
    ranker: str = "support",
    going_on: GoingOn | None = None,
    blind: Blind | None = None,
    signing_in: SigningIn | None = None,
    asking: Sequence[Route] = (),
) -> ASGIApp:
    """The guarded application.

    Args:
        library: The runs.
        port: The port that it is served on.
        token: The key in the printed link; opens nothing where people sign in.
        names: Host names besides those of loopback; `*` is any numeric address.
        ranker: Verifies answers: a packaged ranker, or the folder of one.
        going_on: Resumes waiting cases that were reviewed; None leaves them waiting.
        blind: Serve the pages of blind reviews, and no others, but to those who have signed in as admin.
        signing_in: Signs named users in; None lets everybody in who has the key.
        asking: Further pages, on which questions are asked, from `/ask` on.
    """
    going_on = going_on or GoingOn()
    pages = Server(library, ranker, going_on, ServedAddresses(asks=bool(asking)))
    every = [*asking, *pages.routes()] if blind is None or signing_in is not None else []
    app: ASGIApp = _served(every, signing_in)
    if blind is not None:
        restricted = _served(BlindServer(library, blind, going_on).routes(), signing_in)
        app = restricted if signing_in is None else _by_role(restricted, app)
    # Outermost, so that errors get its headers too.
    return Guard(app, port, signing_in or LinkDoor(port, token), names)


def _by_role(restricted: ASGIApp, every: ASGIApp) -> ASGIApp:
    """Gives those who have signed in as admin all pages, and all others those of blind reviews."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        person = signed_in()
        await (every if person is not None and person.may("admin") else restricted)(scope, receive, send)

    return app


def _served(pages: Sequence[Route], signing_in: SigningIn | None) -> Starlette:
    app = Starlette(
        routes=[
            Route("/assets/{name}", _asset),
            *(signing_in.routes() if signing_in is not None else ()),
            *pages,
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=_MIN_GZIP, compresslevel=_GZIP_LEVEL)],
        exception_handlers={
            HTTPException: _refused,
            RunError: _unreadable,
            UnknownSystem: _unreadable,
            InputError: _unreadable,
            JournalError: _unreadable,
            RankerError: _unreadable,
            WeightsError: _unreadable,
            sqlite3.Error: _unreadable,
            Exception: _failed,
        },
    )
    # No redirects to addresses made from the request.
    app.router.redirect_slashes = False
    return app


def _asset(request: Request) -> Response:
    found = assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "File not found.")
    return Response(found[0], media_type=found[1], headers={"cache-control": "no-cache"})


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _message(error.detail if error.status_code in _EXPLAINED else "Not so.", error.status_code)


def _unreadable(_: Request, error: Exception) -> Response:
    return _message(str(error), 422)


def _failed(_: Request, error: Exception) -> Response:
    return _message(f"The viewer failed with {type(error).__name__}. See its terminal for the location.", 500)


def _message(text: str, status: int) -> Response:
    page = render("message.html", text=text, status=status, addresses=ServedAddresses())
    return HTMLResponse(page, status_code=status)
