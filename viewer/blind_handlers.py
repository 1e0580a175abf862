"""Blind review: serves only pages of cases without labels, votes, answer, key or score.

A server of these pages has no others, so that reviewers cannot reach hidden content. A reviewer's labels are
not shown to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from access.sessions import session_fact, signed_in
from cases.records import Case
from runs.record.manifest import WAITING, RunError
from runs.record.reading import Run
from runs.review.reviewers import Queue, Standing, names, queue_of
from runs.review.reviews import make_independent_review
from viewer.addresses import ServedAddresses
from viewer.case_handlers import (
    demand_own_name,
    demand_role,
    fields_of,
    open_case,
    parameter,
    remember_reviewer,
    reviewer_of,
)
from viewer.going_on import GoingOn
from viewer.library import Library, named
from viewer.opened_run import OpenedRun
from viewer.pages.blind import BlindForm, blind_case_page, blind_runs_page, queue_page, read_blind_form


@dataclass(frozen=True, slots=True)
class Blind:
    """A server of blind reviews.

    Attributes:
        reviewer: The one whom it is for; None lets the browser's user give a name.
    """

    reviewer: str | None = None


class BlindServer:
    """Handlers of blind reviews."""

    def __init__(self, library: Library, blind: Blind, going_on: GoingOn) -> None:
        self._library = library
        self._blind = blind
        self._going_on = going_on
        self._addresses = ServedAddresses()

    def routes(self) -> list[Route]:
        return [
            Route("/", self._runs),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Route("/runs/{run}", self._queue),
            Route("/runs/{run}/review", self._case),
            Route("/runs/{run}/review", self._send, methods=["POST"]),
        ]

    def _runs(self, _: Request) -> Response:
        known = self._library.names()
        if len(known) == 1:
            return RedirectResponse(self._addresses.run(known[0]), 303)
        return HTMLResponse(blind_runs_page(known, self._addresses))

    def _queue(self, request: Request) -> Response:
        name, opened = self._asked(request)
        demand_own_name(opened.path, request.query_params.get("by", "").strip(), "a list of cases")
        reviewer, fault = self._reviewer(request), ""
        if reviewer:
            try:
                (reviewer,) = names(reviewer)
            except (RunError, ValueError):
                reviewer, fault = "", "A name is one line without commas."
        queue, assigned = self._queue_of(opened, reviewer)
        page = queue_page(
            name,
            queue if reviewer else None,
            assigned,
            self._addresses,
            fixed=self._blind.reviewer is not None or signed_in() is not None,
            saved=request.query_params.get("saved"),
            fault=fault,
        )
        answer = HTMLResponse(page)
        if reviewer and self._blind.reviewer is None:
            remember_reviewer(answer, reviewer)
        return answer

    def _case(self, request: Request) -> Response:
        name, opened = self._asked(request)
        reviewer = self._reviewer(request)
        if not reviewer:
            return RedirectResponse(self._addresses.run(name), 303)
        queue, _ = self._queue_of(opened, reviewer)
        case_id = request.query_params.get("id")
        if case_id is None:
            return self._next(name, queue.open[0] if queue.open else None)
        done = queue.done.get(case_id)
        form = BlindForm.of(done) if done is not None and done.blind else BlindForm()
        with opened.reviewing() as (run, _):
            case = _texts(run, queue, case_id)
        return HTMLResponse(blind_case_page(name, case, queue, form, self._addresses))

    async def _send(self, request: Request) -> Response:
        sent = await fields_of(request)
        return await run_in_threadpool(self._take, request, sent)

    def _take(self, request: Request, sent: list[tuple[str, str]]) -> Response:
        name, opened = self._asked(request)
        case_id, reviewer = parameter(request, "id"), self._reviewer(request)
        demand_role("review", opened.path, "a review", case=case_id)
        for field, value in (*sent, *request.query_params.multi_items()):
            if field in ("reviewer", "by"):
                demand_own_name(opened.path, value.strip(), "a review", case=case_id)
        if not reviewer:
            raise HTTPException(404, "The form names no reviewer: begin at the list of cases.")
        queue, _ = self._queue_of(opened, reviewer)
        with opened.reviewing(now=True) as (run, reviewed):
            case = _texts(run, queue, case_id)
            form = read_blind_form(sent, case.sentence_ids)
            line = run.line(case_id)
            try:
                made = make_independent_review(
                    line,
                    case.sentence_ids,
                    reviewer=reviewer,
                    labels=form.labels,
                    comment=form.comment,
                    unsure=form.unsure,
                    seconds=form.seconds,
                )
                reviewed.reviews.add(made, noted=session_fact())
            except RunError as error:
                fault = str(error).partition(": ")[2] or str(error)
                page = blind_case_page(name, case, queue, form, self._addresses, fault=fault)
                return HTMLResponse(page, 422)
            goes_on = line["status"] == WAITING and reviewed.standing(case_id).counting is not None
        if goes_on:
            self._going_on.start(opened.path)
        if form.action == "save":
            return RedirectResponse(self._addresses.review(name, case_id), 303)
        return self._next(name, queue.after(case_id), saved=case_id)

    def _next(self, name: str, case_id: str | None, saved: str | None = None) -> Response:
        if case_id is not None:
            end = "" if saved is None else f"&saved={quote(saved, safe='')}"
            return RedirectResponse(self._addresses.review(name, case_id) + end, 303)
        end = "" if saved is None else f"?{urlencode({'saved': saved})}"
        return RedirectResponse(self._addresses.run(name) + end, 303)

    def _queue_of(self, opened: OpenedRun, reviewer: str) -> tuple[Queue, list[str]]:
        """The person's queue, and the names of all to whom cases are assigned."""
        ended = opened.ended()
        with opened.reviewing() as (_, reviewed):
            standings = _own(reviewed.standings(), reviewer)
        ids = [row.case_id for row in ended.summaries]
        assigned = sorted({one for standing in standings.values() for one in standing.assigned})
        return queue_of(reviewer, ids, standings), assigned

    def _reviewer(self, request: Request) -> str:
        if self._blind.reviewer is not None:
            return self._blind.reviewer
        if signed_in() is not None:
            return reviewer_of(request)
        return request.query_params.get("by", "").strip() or reviewer_of(request)

    def _asked(self, request: Request) -> tuple[str, OpenedRun]:
        name: str = request.path_params["run"]
        return name, named(self._library, name)


def _own(standings: dict[str, Standing], reviewer: str) -> dict[str, Standing]:
    """Only the person's own blind labels."""
    return {
        id_: Standing(
            one.assigned, [each for each in one.history if each.blind and each.reviewer == reviewer]
        )
        for id_, one in standings.items()
    }


def _texts(run: Run, queue: Queue, case_id: str) -> Case:
    """A case of the person's queue.

    Raises:
        HTTPException: The case is unknown.
        RunError: Its texts cannot be read.
    """
    open_case(run, case_id, queue.reviewer)
    if case_id not in queue.case_ids:
        raise HTTPException(404, f"Case {case_id} is not assigned to {queue.reviewer}.")
    case = run.case(case_id)
    if case is None or run.texts_fault:
        raise RunError(
            f"The texts of case {case_id} cannot be shown: {run.texts_fault or 'they are missing'}"
        )
    if not case.sentences:
        raise RunError(f"The note of case {case_id} has no sentences to label.")
    return case
