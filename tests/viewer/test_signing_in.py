"""Named users in the viewer: signing in and out, roles, names that nobody can borrow, and the log of it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from access.sessions import ATTEMPTS, IDLE, WINDOW
from runs.record.folder import RunFolder
from runs.review.reviewers import Assignments, assign
from runs.review.reviews import Reviews, make_independent_review
from tests.viewer.people import OURS, People, form_of
from tests.viewer.written_run import add, ended, finish, new_run

IDS = ["k0", "k1", "k2"]
OTHERS = "what carla thinks of it"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three cases; `k0` is for ana and carla, and carla has labelled it."""
    with new_run(tmp_path / "run", IDS) as run:
        for id_ in IDS:
            add(run, ended(id_, review=None))
        finish(run)
    Assignments(run.path).add(*assign(["k0"], ["ana", "carla"], 2, {}))
    line = RunFolder(run.path).require_case("k0")
    labels = {"1": "essential", "2": "supplementary", "3": "not-relevant", "4": "essential"}
    Reviews(run.path).add(
        make_independent_review(line, ("1", "2", "3", "4"), reviewer="carla", labels=labels, comment=OTHERS)
    )
    return run.path


@pytest.fixture
def people(run: Path) -> People:
    return People(run)


CASE = "/runs/run/case?id=k1"
REVIEW = "/runs/run/review?id=k1"


def test_nothing_is_shown_before_signing_in(people: People) -> None:
    stranger = people.browser()
    for path in ("/", CASE, "/runs/run", "/runs/run/rows.json", "/nothing", "/?token="):
        refused = stranger.get(path)
        assert refused.status_code == 401 and 'type="password"' in refused.text
        assert "k1" not in refused.text.replace(CASE.replace("&", "&amp;"), "")
    # Without these the page would have no looks; they are files of the package.
    assert stranger.get("/assets/viewer.css").status_code == 200


def test_a_token_opens_the_page_that_was_wanted(people: People) -> None:
    ana = people.browser()
    token = people.token("ana", "review")
    assert f'name="next" value="{CASE}"' in ana.get(CASE).text
    answer = people.sign_in(ana, token, CASE)
    assert (answer.status_code, answer.headers["location"]) == (303, CASE)
    cookie = set(answer.headers["set-cookie"].lower().split("; "))
    assert {"httponly", "samesite=strict", "path=/"} <= cookie and "secure" not in cookie
    page = ana.get(CASE).text
    assert "<strong" in page and ">ana</strong>, review" in page and "Sign out" in page
    assert token not in page and token not in answer.headers["set-cookie"]


def test_over_tls_the_cookie_is_secure_and_bound_to_the_host(run: Path) -> None:
    people = People(run, scheme="https")
    answer = people.sign_in(people.browser(), people.token("ana", "view"))
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-evigraph_") and "Secure" in cookie
    people.base = "http://127.0.0.1:8123"
    refused = people.sign_in(people.browser(), "x")
    assert refused.status_code == 403


@pytest.mark.parametrize("target", ["//evil.example/", "/\\evil.example", "https://evil.example", "\\\\evil"])
def test_signing_in_leads_to_no_other_host(people: People, target: str) -> None:
    answer = people.sign_in(people.browser(), people.token("ana", "view"), target)
    location = answer.headers["location"]
    assert location.startswith("/") and not location.startswith(("//", "/\\"))


def test_a_token_in_an_address_opens_nothing(people: People) -> None:
    token = people.token("ana", "admin")
    assert people.browser().get("/", params={"token": token}).status_code == 401
    assert people.browser().get("/sign-in", params={"token": token}).status_code == 200
    assert people.log() == []


def test_who_has_signed_in_needs_no_form(people: People) -> None:
    answer = people.signed_in("ana", "review").get("/sign-in", params={"next": "/runs/run"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_another_site_signs_nobody_in_or_out(people: People) -> None:
    ana = people.signed_in("ana", "review")
    for path in ("/sign-out", "/sign-in"):
        sent = {"token": people.token(f"other {path}", "view")}
        assert ana.post(path, data=sent, headers={"origin": "http://evil.example"}).status_code == 403
    assert ana.get("/").status_code == 200


def test_signing_out_ends_the_session_for_good(people: People) -> None:
    ana = people.signed_in("ana", "review")
    (key,) = [cookie.value for cookie in ana.cookies.jar]
    answer = ana.post("/sign-out", headers={"origin": OURS})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert ana.get("/").status_code == 401
    ana.cookies.set(f"evigraph_{OURS[-4:]}", str(key))
    assert ana.get("/").status_code == 401


def test_a_removed_user_is_out_at_once(people: People) -> None:
    ana = people.signed_in("ana", "review")
    assert ana.get(CASE).status_code == 200
    people.users.remove("ana")
    assert ana.get(CASE).status_code == 401
    assert people.log()[-1]["because"] == "removed"


def test_an_idle_session_ends_though_its_page_asks_for_news(people: People) -> None:
    ana = people.signed_in("ana", "review")
    for _ in range(3):
        people.clock.at += IDLE / 3
        status = ana.get("/runs/run/rows.json").status_code
    assert status == 401


def test_what_was_typed_is_not_lost_with_the_session(people: People, run: Path) -> None:
    ana = people.signed_in("ana", "review")
    form = form_of(ana.get(REVIEW).text) | {"comment": "typed for an hour", "labels_right": "on"}
    people.clock.at += IDLE
    refused = ana.post(REVIEW, data=form, headers={"origin": OURS})
    assert (
        refused.status_code == 401
        and "reload this page" in refused.text
        and 'target="_blank"' in refused.text
    )
    # She signs in in another tab, and the browser sends the form again.
    assert people.sign_in(ana, people.users.add("ana", None, people.today, renew=True)[1]).status_code == 303
    assert ana.post(REVIEW, data=form, headers={"origin": OURS}).status_code == 303
    assert Reviews(run).history("k1")[-1].comment == "typed for an hour"


def test_a_form_that_one_person_began_is_not_saved_as_anothers(people: People, run: Path) -> None:
    ana = people.signed_in("ana", "review")
    form = form_of(ana.get(REVIEW).text) | {"labels_right": "on"}
    assert form["reviewer"] == "ana"
    ben = people.signed_in("ben", "review")
    refused = ben.post(REVIEW, data=form, headers={"origin": OURS})
    assert refused.status_code == 403 and "You are signed in as ben" in refused.text
    assert Reviews(run).history("k1") == []
    line = people.log()[-1]
    assert (line["event"], line["person"], line["named"], line["case"]) == ("refused", "ben", "ana", "k1")


def test_a_review_has_the_name_of_who_signed_in(people: People, run: Path) -> None:
    ana = people.signed_in("ana", "review")
    page = ana.get(REVIEW).text
    assert "Your name" not in page
    form = {name: value for name, value in form_of(page).items() if name != "reviewer"}
    assert ana.post(REVIEW, data=form | {"labels_right": "on"}, headers={"origin": OURS}).status_code == 303
    (review,) = Reviews(run).history("k1")
    assert review.reviewer == "ana"
    line = people.log()[-1]
    assert (line["event"], line["person"]) == ("reviewed", "ana") and len(line["session"]) == 8


def test_who_views_cannot_review(people: People, run: Path) -> None:
    bert = people.signed_in("bert", "view")
    page = bert.get(REVIEW).text
    assert "review-form" not in page and "Sentence 1." in page
    assert "next-review" not in bert.get("/runs/run").text
    for path in (REVIEW, "/runs/run/adjudicate?id=k1"):
        refused = bert.post(path, data={"labels_right": "on"}, headers={"origin": OURS})
        assert refused.status_code == 403 and "Your role is view" in refused.text
    assert not Reviews(run).history("k1")
    events = [(line["event"], line.get("what")) for line in people.log()[-2:]]
    assert events == [("refused", "a review"), ("refused", "a decision")]


def test_reviews_leave_as_a_file_with_admins_alone(people: People) -> None:
    for name, role, status in (("ana", "review", 403), ("bert", "view", 403), ("dora", "admin", 200)):
        person = people.signed_in(name, role)  # type: ignore[arg-type]
        assert person.get("/runs/run/gold.jsonl").status_code == status
        assert ("gold.jsonl" in person.get("/runs/run").text) == (status == 200)
    assert people.log()[-1]["event"] in ("exported", "opened")


@pytest.mark.parametrize(("name", "role"), [("ana", "review"), ("bert", "view")])
def test_what_others_say_of_a_case_is_seen_once_all_have_labelled_it(
    people: People, run: Path, name: str, role: str
) -> None:
    person = people.signed_in(name, role)  # type: ignore[arg-type]
    pages = (
        "/runs/run/case?id=k0",
        "/runs/run/case?id=k1&saved=k0",
        "/runs/run/adjudicate?id=k0",
        "/runs/run/reviewers",
    )
    for page in pages:
        shown = person.get(page)
        assert shown.status_code == 200
        assert OTHERS not in shown.text and "carla" not in shown.text, page
    admin = people.signed_in("dora", "admin")
    assert OTHERS in admin.get(pages[0]).text and "carla" in admin.get(pages[3]).text
    line = RunFolder(run).require_case("k0")
    labels = dict.fromkeys(("1", "2", "3", "4"), "essential")
    Reviews(run).add(make_independent_review(line, tuple(labels), reviewer="ana", labels=labels))
    people.library.close()
    assert OTHERS in person.get(pages[0]).text and "carla" in person.get(pages[2]).text


def test_no_decision_is_made_before_all_have_labelled(people: People, run: Path) -> None:
    ana, dora = people.signed_in("ana", "review"), people.signed_in("dora", "admin")
    for one, status in ((ana, 403), (dora, 303)):
        sent = {f"label.{place}": "essential" for place in range(4)}
        answer = one.post("/runs/run/adjudicate?id=k0", data=sent, headers={"origin": OURS})
        assert answer.status_code == status
    assert [one.reviewer for one in Reviews(run).history("k0")] == ["carla", "dora"]


def test_attempts_run_out_and_come_back(people: People) -> None:
    token = people.token("ana", "view")
    stranger = people.browser()
    other = people.token("bo", "view")
    for wrong in ("evigraph-wrong-token", f"{token}x"):
        for _ in range(ATTEMPTS):
            assert people.sign_in(stranger, wrong).status_code == 403
        refused = people.sign_in(stranger, wrong)
        assert refused.status_code == 429 and refused.headers["retry-after"] == str(int(WINDOW) + 1)
    lines = len(people.log())
    assert people.sign_in(stranger, token).status_code == 429
    assert len(people.log()) == lines == 2 * ATTEMPTS
    # Others behind the same address are let in.
    assert people.sign_in(stranger, other).status_code == 303
    people.clock.at += WINDOW
    assert people.sign_in(stranger, token).status_code == 303


def test_an_expired_token_opens_nothing(people: People) -> None:
    token = people.token("ana", "view", days=1)
    people.today += timedelta(days=1)
    refused = people.sign_in(people.browser(), token)
    assert refused.status_code == 403 and "has expired" in refused.text
    assert (people.log()[-1]["event"], people.log()[-1]["person"]) == ("refused", "ana")


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"token=x", {"content-type": "text/plain"}, 415),
        (b"token=" + b"x" * 20_000, {}, 413),
        (b"next=/", {}, 415),
        (b"", {}, 415),
        (b"token=%00%ff&next=%0d%0aset-cookie:a", {}, 403),
    ],
)
def test_other_forms_are_refused(
    people: People, content: bytes, headers: dict[str, str], status: int
) -> None:
    form = {"content-type": "application/x-www-form-urlencoded", "origin": OURS} | headers
    assert people.browser().post("/sign-in", content=content, headers=form).status_code == status


def test_a_list_of_users_that_cannot_be_read_lets_nobody_in(people: People) -> None:
    ana = people.signed_in("ana", "review")
    people.users.path.write_text("{")
    refused = ana.get(CASE)
    assert refused.status_code == 503 and "Sentence 1." not in refused.text
    assert str(people.users.path) in people.said[0] and str(people.users.path) not in refused.text
    assert people.sign_in(people.browser(), "x").status_code == 503


def test_a_link_from_elsewhere_finds_the_session(people: People) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    page = people.browser().get(CASE, headers=headers)
    assert page.status_code == 200 and f'content="0; url={CASE}"' in page.text


def test_the_log_says_who_came_what_they_did_and_how_they_left(people: People) -> None:
    ana, bert = people.signed_in("ana", "review"), people.signed_in("bert", "view")
    ana.get(CASE)
    bert.get(CASE)
    ana.get("/runs/run/verify?id=zzz")
    people.sign_in(people.browser(), "nothing")
    for one in (ana, bert):
        one.post("/sign-out", headers={"origin": OURS})
    people.signed_in("cara", "view")
    people.door.close()
    said = [(line["event"], line["person"]) for line in people.log()]
    assert said == [
        ("signed_in", "ana"),
        ("signed_in", "bert"),
        ("opened", "ana"),
        ("opened", "bert"),
        ("refused", "(unknown)"),
        ("signed_out", "ana"),
        ("signed_out", "bert"),
        ("signed_in", "cara"),
        ("signed_out", "cara"),
    ]
    of_ana = {line["session"] for line in people.log() if line["person"] == "ana"}
    assert len(of_ana) == 1
    assert [line["because"] for line in people.log() if "because" in line] == [
        "signed out",
        "signed out",
        "the server has ended",
    ]


def test_blind_pages_are_for_all_but_admins(run: Path) -> None:
    people = People(run, blind=True)
    ana, bert, dora = (
        people.signed_in(name, role)  # type: ignore[arg-type]
        for name, role in (("ana", "review"), ("bert", "view"), ("dora", "admin"))
    )
    assert "1 remaining" in ana.get("/runs/run").text and "Your name" not in ana.get("/runs/run").text
    for path in (
        "/runs/run/case?id=k0",
        "/runs/run/rows.json",
        "/runs/run/reviewers",
        "/runs/run/gold.jsonl",
    ):
        assert [one.get(path).status_code for one in (ana, bert, dora)] == [404, 404, 200]
    assert ana.get("/runs/run", params={"by": "carla"}).status_code == 403
    fields = {f"label.{place}": "essential" for place in range(4)}
    address = "/runs/run/review?id=k0"
    for sent, query in ((fields | {"reviewer": "carla"}, ""), (fields, "&by=carla")):
        assert ana.post(address + query, data=sent, headers={"origin": OURS}).status_code == 403
    assert bert.post(address, data=fields, headers={"origin": OURS}).status_code == 403
    assert ana.post(address, data=fields, headers={"origin": OURS}).status_code == 303
    assert [one.reviewer for one in Reviews(run).history("k0")] == ["carla", "ana"]


def test_many_runs_share_the_log_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a", "b"):
        with new_run(tmp_path / "out" / name, ["k0"]) as run:
            add(run, ended("k0"))
            finish(run)
    people = People(tmp_path / "out")
    ana = people.signed_in("ana", "view")
    ana.get("/runs/a/case?id=k0")
    assert [line["event"] for line in people.log()] == ["signed_in"]
    assert [(line["event"], line["person"]) for line in people.log(tmp_path / "out" / "a")] == [
        ("opened", "ana")
    ]
    assert json.loads(ana.get("/runs/b/rows.json").content)["status"]
