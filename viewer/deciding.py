"""Handlers of what several reviewers come to: their agreement, and the decision where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from access.sessions import session_fact, signed_in
from evals.agreement import reviewer_agreement
from runs.record.audit import record_if_possible
from runs.record.folder import RunFolder
from runs.record.manifest import WAITING, RunError
from runs.review.reviewed_gold import export_adjudicated
from runs.review.reviewers import assign_cases, decide, names, queues
from viewer.addresses import ServedAddresses
from viewer.case_handlers import (
    Named,
    demand_case,
    demand_own_name,
    demand_role,
    fields_of,
    open_case,
    parameter,
    remember_reviewer,
    reviewer_of,
    seen,
)
from viewer.going_on import GoingOn
from viewer.pages.blind import BlindForm, read_blind_form
from viewer.pages.reviewers import AssignForm, adjudicate_page, reviewers_page


class Deciding:
    """Handlers."""

    def __init__(self, named: Named, addresses: ServedAddresses, going_on: GoingOn) -> None:
        self._named = named
        self._addresses = addresses
        self._going_on = going_on

    def reviewers(self, request: Request) -> Response:
        """Everybody's queue, and how far they agree; but for an admin, one's own and finished cases."""
        return HTMLResponse(self._overview(request, assigned=request.query_params.get("assigned", "")))

    async def assign(self, request: Request) -> Response:
        sent = await fields_of(request)
        return await run_in_threadpool(self._assign, request, dict(sent))

    def key(self, request: Request) -> Response:
        """What the reviewers' labels come to, as a key."""
        run: Path = self._named(request.path_params["run"]).path
        demand_role("admin", run, "an export of reviews")
        with TemporaryDirectory() as folder:
            path = Path(folder) / "key.json"
            export_adjudicated(RunFolder(run), path)
            content = path.read_bytes()
        facts = {"person": reviewer_of(request), "what": "decided cases", **session_fact()}
        record_if_possible(run, "exported", **facts)
        headers = {"content-disposition": 'attachment; filename="key.json"'}
        return Response(content, media_type="application/json", headers=headers)

    def _assign(self, request: Request, sent: Mapping[str, str]) -> Response:
        name: str = request.path_params["run"]
        opened = self._named(name)
        demand_role("admin", opened.path, "an assignment")
        each = sent.get("each", "")[:4]
        try:
            people = names(sent.get("to", ""))
            with opened.reviewing(now=True) as (run, _):
                wanted = max(1, int(each)) if each.isdecimal() else 1
                made = assign_cases(run, people, wanted, noted=session_fact())
        except RunError as error:
            return HTMLResponse(self._overview(request, to=sent.get("to", ""), fault=str(error)), 422)
        return RedirectResponse(f"{self._addresses.reviewers(name)}?assigned={made}", 303)

    def _overview(self, request: Request, *, assigned: str = "", to: str = "", fault: str = "") -> str:
        name: str = request.path_params["run"]
        opened = self._named(name)
        ids = [row.case_id for row in opened.ended().summaries]
        with opened.reviewing(now=True) as (_, reviewed):
            every = dict(reviewed.standings())
        person = signed_in()
        shown = queues(ids, every)
        if person is not None and not person.may("admin"):
            shown = [one for one in shown if one.reviewer == person.name]
        standings = {id_: seen(one) for id_, one in every.items()}
        return reviewers_page(
            name,
            opened.path,
            shown,
            standings,
            reviewer_agreement(standings),
            self._addresses,
            form=AssignForm(
                person is None or person.may("admin"),
                to or ", ".join(one.reviewer for one in shown),
                fault,
                int(assigned[:9]) if assigned.isdecimal() else None,
            ),
        )

    def form(self, request: Request) -> Response:
        """A case on which reviewers differ, their labels side by side."""
        name: str = request.path_params["run"]
        return HTMLResponse(self._page(name, parameter(request, "id"), BlindForm(), reviewer_of(request)))

    async def send(self, request: Request) -> Response:
        sent = await fields_of(request)
        return await run_in_threadpool(self._take, request, sent)

    def _page(self, name: str, case_id: str, form: BlindForm, reviewer: str, fault: str = "") -> str:
        with self._named(name).reviewing() as (run, reviewed):
            open_case(run, case_id, reviewer)
            standing, case = seen(reviewed.standing(case_id)), run.case(case_id)
        return adjudicate_page(
            name, case_id, case, standing, form, self._addresses, reviewer=reviewer, fault=fault
        )

    def _take(self, request: Request, sent: list[tuple[str, str]]) -> Response:
        name: str = request.path_params["run"]
        case_id, opened = parameter(request, "id"), self._named(name)
        reviewer = next((value.strip() for field, value in sent if field == "reviewer"), "")
        demand_role("review", opened.path, "a decision", case=case_id)
        demand_own_name(opened.path, reviewer, "a decision", case=case_id)
        if signed_in() is not None:
            reviewer = reviewer_of(request)
        with opened.reviewing(now=True) as (run, reviewed):
            demand_case(run, case_id)
            line, standing = run.line(case_id), reviewed.standing(case_id)
            if standing.missing:
                # Until all have labelled it, a decision would disclose the others' labels.
                demand_role(
                    "admin", opened.path, "a decision before all have labelled the case", case=case_id
                )
            form = read_blind_form(sent, standing.sentence_ids)
            fault = ""
            try:
                made = decide(
                    line,
                    standing,
                    reviewer=reviewer,
                    labels=form.labels,
                    comment=form.comment,
                    seconds=form.seconds,
                )
                reviewed.reviews.add(made, noted=session_fact())
            except RunError as error:
                fault = str(error)
            undecided = [id_ for id_, one in reviewed.standings().items() if seen(one).undecided]
        if fault:
            return HTMLResponse(self._page(name, case_id, form, reviewer, fault), 422)
        if line["status"] == WAITING:
            self._going_on.start(opened.path)
        following = undecided[0] if undecided and form.action == "next" else None
        target = (
            self._addresses.reviewers(name)
            if following is None
            else self._addresses.adjudicate(name, following)
        )
        answer = RedirectResponse(target, 303)
        remember_reviewer(answer, reviewer)
        return answer
