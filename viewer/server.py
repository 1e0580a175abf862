"""The pages over HTTP. Requests are served in threads: reading a run would hold up everybody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runs.manifest import RunError
from serving.journal import JournalError
from viewer.addresses import Addresses
from viewer.assets_of_pages import assets
from viewer.charts import draw
from viewer.figures import NAMES, figures
from viewer.guard import IMAGE_POLICY, Guard
from viewer.library import Library
from viewer.opened_run import OpenedRun
from viewer.pages.run import rows_document, run_page
from viewer.pages.runs import ListedRun, listed, runs_page
from viewer.rendering import render
from viewer.served import ServedAddresses

_SMALLEST_GZIP = 2_000
_GZIP_LEVEL = 5

Handler = Callable[[Request], Response]


class Server:
    """Handlers of the pages of a library of runs."""

    def __init__(self, library: Library) -> None:
        """Serve these runs."""
        self._library = library
        self._addresses: Addresses = ServedAddresses()
        self._charts: dict[tuple[str, str], tuple[int, str]] = {}
        self._rows: dict[str, tuple[int, str, bytes]] = {}

    def routes(self) -> list[Route]:
        """Every address that there is."""
        return [
            Route("/", self._runs),
            Route("/assets/{name}", _asset),
            # Browsers ask for it unbidden.
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Route("/runs/{run}", self._run),
            Route("/runs/{run}/rows.json", self._rows_of_run),
            Route("/runs/{run}/charts/{chart}.svg", self._chart),
            # MARK: routes of cases and calls, "/runs/{run}/case" and "/runs/{run}/call", stand here.
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
            return listed(name, run.path, *run.totals())
        except RunError as error:
            return ListedRun(name, str(run.path), fault=str(error))

    def _run(self, request: Request) -> Response:
        name, run = self._asked(request)
        totals = run.totals()[1]
        return HTMLResponse(run_page(name, run.path, run.ended(), totals, self._addresses))

    def _rows_of_run(self, request: Request) -> Response:
        name, run = self._asked(request)
        since = request.query_params.get("since", "0")
        ended = run.ended()
        # All rows of a large run take long to write; a run that is finished does so once.
        known = self._rows.get(name)
        if not since.isdecimal() or int(since[:18]) == 0:
            if known is None or known[:2] != (ended.revision, ended.manifest.status):
                body = orjson.dumps(rows_document(name, ended, 0, self._addresses))
                known = self._rows[name] = (ended.revision, ended.manifest.status, body)
            return Response(known[2], media_type="application/json")
        body = orjson.dumps(rows_document(name, ended, int(since[:18]), self._addresses))
        return Response(body, media_type="application/json")

    def _chart(self, request: Request) -> Response:
        name, run = self._asked(request)
        chart = request.path_params["chart"]
        if chart not in NAMES:
            raise HTTPException(404, "There is no such chart.")
        ended = run.ended()
        known = self._charts.get((name, chart))
        if known is None or known[0] != ended.revision:
            known = self._charts[name, chart] = (ended.revision, draw(figures(ended.summaries)[chart]))
        headers = {"content-security-policy": IMAGE_POLICY}
        return Response(known[1], media_type="image/svg+xml", headers=headers)

    def _asked(self, request: Request) -> tuple[str, OpenedRun]:
        name = request.path_params["run"]
        run = self._library.get(name)
        if run is None:
            raise HTTPException(404, f"There is no run {name!r} here.")
        return name, run


def application(library: Library, port: int, token: str, names: Iterable[str] = ()) -> ASGIApp:
    """The guarded application.

    Args:
        library: The runs.
        port: Where it is served.
        token: The key in the printed link.
        names: Host names besides those of loopback; `*` is any numeric address.
    """
    app = Starlette(
        routes=Server(library).routes(),
        middleware=[Middleware(GZipMiddleware, minimum_size=_SMALLEST_GZIP, compresslevel=_GZIP_LEVEL)],
        exception_handlers={
            HTTPException: _refused,
            RunError: _unreadable,
            JournalError: _unreadable,
            sqlite3.Error: _unreadable,
            Exception: _failed,
        },
    )
    # An address is as written or is none: no redirect is made of what was asked for.
    app.router.redirect_slashes = False
    # Outermost, so that not even an error leaves without its headers.
    return Guard(app, port, token, names)


def _asset(request: Request) -> Response:
    found = assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such file.")
    return Response(found[0], media_type=found[1], headers={"cache-control": "no-cache"})


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _message(error.detail if error.status_code == 404 else "Not so.", error.status_code)


def _unreadable(_: Request, error: Exception) -> Response:
    return _message(str(error), 422)


def _failed(_: Request, error: Exception) -> Response:
    return _message(f"The viewer failed with {type(error).__name__}. Its terminal tells where.", 500)


def _message(text: str, status: int) -> Response:
    page = render("message.html", text=text, status=status, addresses=ServedAddresses())
    return HTMLResponse(page, status_code=status)
