"""Handlers of requests about one case: its page, its reviews, and its answer checked against the note.

Saving a review is the only write of the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, unquote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from access.guard import INLINE_STYLE_POLICY
from access.sessions import Person, session_fact, signed_in
from access.users import Role
from cases.formats.plain_jsonl import jsonl
from evals.verification import Report, answer_and_note, render
from ranking.rankers.ranker import Ranker
from runs.record.audit import record_if_possible
from runs.record.folder import RunFolder
from runs.record.manifest import WAITING, RunError
from runs.record.reading import Run
from runs.review.reviewed_gold import reviewed_cases
from runs.review.reviewers import Outdated, ReviewedRun, Standing, queue_of
from runs.review.reviews import MAX_REVIEWER
from viewer.addresses import ServedAddresses
from viewer.case_parts.review import Typed, Visit, read_form, review_of
from viewer.going_on import GoingOn
from viewer.opened_run import Ended, OpenedRun
from viewer.pages.case import NameOf, case_page

MAX_FORM = 4_000_000
"""Bytes; the longest answer and comment, at nine bytes a letter, and ten thousand sentences take less."""
_MAX_FIELDS = 100_000
_REVIEWER = "evigraph_reviewer"
_YEAR = 365 * 24 * 3600

Named = Callable[[str], OpenedRun]
"""The run of a name; raises `HTTPException` where there is none."""


def parameter(request: Request, name: str) -> str:
    """A query parameter.

    Raises:
        HTTPException: It is missing.
    """
    found = request.query_params.get(name)
    if not found:
        raise HTTPException(404, f"The address names no {name}.")
    return found


def demand_case(run: Run, case_id: str) -> None:
    """Require that the run has a case.

    Raises:
        HTTPException: It has no such case.
    """
    try:
        run.line(case_id)
    except RunError as error:
        raise HTTPException(404, str(error)) from None


def open_case(run: Run, case_id: str, person: str) -> None:
    """Note in the run's audit log who opens a case.

    Raises:
        HTTPException: The run has no such case.
    """
    demand_case(run, case_id)
    record_if_possible(run.path, "opened", person=person, case=case_id, **session_fact())


def demand_role(role: Role, run: Path, what: str, **facts: str) -> None:
    """Require that the signed-in user may do something; without sign-in, everybody may.

    Raises:
        HTTPException: They may not; recorded in the run's audit log.
    """
    person = signed_in()
    if person is not None and not person.may(role):
        told = f"Your role is {person.role}, and {what} needs the role {role}."
        raise _refused(run, person, what, told, **facts)


def demand_own_name(run: Path, name: str, what: str, **facts: str) -> None:
    """Require that nobody who has signed in gives another name than theirs.

    Raises:
        HTTPException: They do; recorded in the run's audit log.
    """
    person = signed_in()
    if person is not None and name not in ("", person.name):
        told = f"You are signed in as {person.name}: nothing is saved under another name."
        raise _refused(run, person, what, told, named=name[:MAX_REVIEWER], **facts)


def _refused(run: Path, person: Person, what: str, told: str, **facts: str) -> HTTPException:
    record_if_possible(run, "refused", person=person.name, what=what, **facts, session=person.session)
    return HTTPException(403, told)


def seen(standing: Standing) -> Standing:
    """Reviews of a case that the current user may see; until all have labelled it, only their own."""
    person = signed_in()
    return standing if person is None else standing.seen_by(person.name, admin=person.may("admin"))


class Reviewing:
    """Handlers of a case's page and its reviews."""

    def __init__(self, named: Named, name_of: NameOf, addresses: ServedAddresses, going_on: GoingOn) -> None:
        self._going_on = going_on
        self._named = named
        self._name_of = name_of
        self._addresses = addresses

    def case(self, request: Request) -> Response:
        return self._shown(request, opened=False)

    def form(self, request: Request) -> Response:
        """A case with the form open; without an id, the first case that waits for a review."""
        if "id" in request.query_params:
            return self._shown(request, opened=True)
        name: str = request.path_params["run"]
        waiting = _waiting(self._named(name).ended())
        if not waiting:
            return RedirectResponse(self._addresses.run(name), 303)
        return RedirectResponse(self._addresses.review(name, waiting[0]), 303)

    async def send(self, request: Request) -> Response:
        typed = read_form(await fields_of(request))
        return await run_in_threadpool(self._take, request, typed)

    def gold(self, request: Request) -> Response:
        """The reviewed cases as JSON lines."""
        run = self._named(request.path_params["run"])
        demand_role("admin", run.path, "an export of reviews")
        record_if_possible(
            run.path, "exported", person=reviewer_of(request), what="reviewed cases", **session_fact()
        )
        content = b"".join(jsonl(reviewed_cases(RunFolder(run.path)).cases))
        headers = {"content-disposition": 'attachment; filename="gold.jsonl"'}
        return Response(content, media_type="application/jsonl", headers=headers)

    def _shown(self, request: Request, *, opened: bool) -> Response:
        name: str = request.path_params["run"]
        case_id = parameter(request, "id")
        with self._named(name).reviewing() as (run, reviews):
            open_case(run, case_id, reviewer_of(request))
            saved = seen(reviews.standing(request.query_params.get("saved", ""))).history
            visit = Visit(reviewer_of(request), opened, saved=saved[-1] if saved else None)
            return HTMLResponse(self._page(run, name, case_id, reviews, visit))

    def state(self, request: Request) -> Response:
        """State of a waiting or continuing case, polled by its page."""
        name: str = request.path_params["run"]
        case_id = parameter(request, "id")
        opened = self._named(name)
        with opened.reviewing(now=True) as (run, _):
            demand_case(run, case_id)
            status = run.line(case_id)["status"]
        going = self._going_on.progress(opened.path)
        return JSONResponse({"status": status, "going": going and going.state})

    def _page(self, run: Run, name: str, case_id: str, reviews: ReviewedRun, visit: Visit) -> str:
        going = self._going_on.progress(run.path)
        person = signed_in()
        visit = replace(
            visit,
            going=going,
            resumes=self._going_on.possible,
            writes=person is None or person.may("review"),
            names=person is None or person.may("admin"),
        )
        standing = seen(reviews.standing(case_id))
        return case_page(run, name, case_id, self._addresses, standing, visit, self._name_of)

    def _take(self, request: Request, typed: Typed) -> Response:
        name: str = request.path_params["run"]
        case_id = parameter(request, "id")
        opened = self._named(name)
        demand_role("review", opened.path, "a review", case=case_id)
        demand_own_name(opened.path, typed.reviewer, "a review", case=case_id)
        if signed_in() is not None:
            typed = replace(typed, reviewer=reviewer_of(request))
        with opened.reviewing(now=True) as (run, reviews):
            demand_case(run, case_id)
            try:
                line = run.line(case_id)
                made = review_of(line, seen(reviews.standing(case_id)), typed)
                reviews.reviews.add(made, noted=session_fact())
                was_waiting = line["status"] == WAITING
                goes_on = was_waiting and reviews.standing(case_id).counting is not None
            except RunError as error:
                outdated = isinstance(error, Outdated)
                visit = Visit(
                    typed.reviewer or reviewer_of(request), True, typed, fault=str(error), outdated=outdated
                )
                page = self._page(run, name, case_id, reviews, visit)
                return HTMLResponse(page, 409 if outdated else 422)
        if goes_on:
            self._going_on.start(opened.path)
        following = None
        if typed.action == "next":
            following = self._following(opened, case_id, typed.reviewer, was_waiting)
        target = (
            self._addresses.case(name, case_id)
            if following is None
            else self._addresses.review(name, following)
        )
        answer = RedirectResponse(f"{target}&saved={quote(case_id, safe='')}", 303)
        remember_reviewer(answer, typed.reviewer)
        return answer

    def _following(self, opened: OpenedRun, case_id: str, reviewer: str, was_waiting: bool) -> str | None:
        """The next case of the reviewer's own; without any of the same kind: waiting, or without a review."""
        ended = opened.ended()
        with opened.reviewing() as (_, reviews):
            standings = reviews.standings()
        if any(reviewer in one.assigned for one in standings.values()):
            return queue_of(reviewer, [row.case_id for row in ended.summaries], standings).after(case_id)
        ids = [row.case_id for row in ended.summaries]
        here = ids.index(case_id) if case_id in ids else 0
        wanted = set(_waiting(ended)) if was_waiting else {id_ for id_ in ids if id_ not in ended.reviews.of}
        return next((id_ for id_ in ids[here + 1 :] + ids[:here] if id_ in wanted), None)


def _waiting(ended: Ended) -> list[str]:
    return [id_ for id_, state in ended.reviews.of.items() if state == "waiting"]


async def fields_of(request: Request) -> list[tuple[str, str]]:
    """The fields of a sent form.

    Raises:
        HTTPException: It is something else, or too large.
    """
    demand_form(request, MAX_FORM)
    form = await request.form(max_fields=_MAX_FIELDS)
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def demand_form(request: Request, most: int) -> None:
    """Require that a form was sent.

    Raises:
        HTTPException: It is something else, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise HTTPException(415, "This is sent as a form.")
    length = request.headers.get("content-length", "")
    # The server takes no more bytes than are announced.
    if not length.isdecimal() or int(length[:12]) > most:
        raise HTTPException(413, "The form is too large.")


def reviewer_of(request: Request) -> str:
    """The signed-in user; else the name of the browser's last review, empty without one."""
    person = signed_in()
    if person is not None:
        return person.name
    return unquote(request.cookies.get(_REVIEWER, ""))[:MAX_REVIEWER]


def remember_reviewer(answer: Response, name: str) -> None:
    """Let the next form start with a name.

    It belongs to a person, not to one server: the next viewer starts with it too. Who signs in needs none.
    """
    if signed_in() is not None:
        return
    answer.set_cookie(
        _REVIEWER, quote(name, safe=""), max_age=_YEAR, path="/runs", httponly=True, samesite="strict"
    )


class Verifying:
    """Finds the support of an answer on request.

    Loading the ranker takes seconds and waits for the first request: most readers never ask.
    """

    def __init__(self, named: Named, addresses: ServedAddresses, ranker: str = "support") -> None:
        self._named = named
        self._addresses = addresses
        self._name = ranker
        self._ranker: Ranker | None = None
        # One text at a time: several would share the processors and finish no sooner.
        self._lock = threading.Lock()

    def page(self, request: Request) -> Response:
        """The support of one answer, sentence by sentence.

        Raises:
            InputError: The case has no answer, or its file has moved.
            RankerError, WeightsError: The ranker cannot be used.
        """
        run, case_id = request.path_params["run"], parameter(request, "id")
        with self._named(run).reading() as reading:
            open_case(reading, case_id, reviewer_of(request))
            answer, case = reading.line(case_id).get("answer"), reading.case(case_id)
        lines, source = answer_and_note(run, case_id, answer, case)
        with self._lock:
            report = self._report(f"answer of run {run}", lines, source.name, source.ids, source.sentences)
        return HTMLResponse(
            render(report, back=self._addresses.case(run, case_id)),
            headers={"content-security-policy": INLINE_STYLE_POLICY},
        )

    def _report(
        self, note: str, lines: tuple[str, ...], source: str, ids: tuple[str, ...], sentences: tuple[str, ...]
    ) -> Report:
        # These import torch.
        from ranking.rankers.load import load_ranker
        from ranking.verify import verify

        if self._ranker is None:
            self._ranker = load_ranker(self._name)
        return Report(
            note=note,
            source=source,
            ids=ids,
            ranker=self._ranker.identity,
            verification=verify(self._ranker, lines, sentences),
            source_encoded=None,
        )
