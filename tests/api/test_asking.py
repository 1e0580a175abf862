"""The pages that ask: who may open and send them, that texts are data, and what a person watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from access.users import Users
from api.asking import Asking
from api.bodies import Submission
from api.callers import Caller, Rate
from api.offer import Limits
from api.server import ByService
from api.service import Service
from tests.api.services import LAST, NOTE, Place, parsed, served, steps_until, until
from tests.viewer.browsing import CHROMIUM, needs_browser
from viewer.library import Library
from viewer.listening import configured, listen
from viewer.server import application
from viewer.signing_in import SigningIn

NOW = datetime(2026, 11, 23, tzinfo=UTC)
ADMIN = Caller("Olga", "admin")
PORT = 8124
TOKEN = "the-key"  # noqa: S105 - of a test
HOME = f"http://127.0.0.1:{PORT}"
OWN = {"origin": HOME, "sec-fetch-site": "same-origin"}
TYPED = {"question": "Why was <b>vitamin K</b> given?", "note": NOTE, "recipe": "lexical", "model": "auto"}


@pytest.fixture
def service(place: Place) -> Iterator[Service]:
    with place.service(Limits(per_minute=5)) as service:
        yield service


@pytest.fixture
def browser(service: Service, place: Place) -> Iterator[TestClient]:
    """Somebody who has opened the link."""
    library = Library([place.root])
    app = application(
        library,
        PORT,
        TOKEN,
        going_on=ByService(service),
        asking=Asking(service, Rate(5, lambda: 0.0)).routes(),
    )
    with TestClient(app, base_url=HOME, follow_redirects=False) as client:
        client.get("/ask", params={"token": TOKEN})
        yield client
    library.close()


def ended(service: Service, path: str) -> str:
    job = service.job(path.rpartition("/")[2], ADMIN)
    until(lambda: service.runner.session(job).state, lambda state: state == "rest")
    return job.record.id


def test_a_question_is_asked_watched_and_answered(browser: TestClient, service: Service) -> None:
    form = browser.get("/ask").text
    assert '<option value="counting">' in form
    assert '<optgroup label="tamu">' in form
    sent = browser.post("/ask", data=TYPED, headers=OWN)
    assert sent.status_code == 303
    path = sent.headers["location"]
    id_ = ended(service, path)
    page = browser.get(path).text
    assert "made up by a script" in page
    assert "Why was &lt;b&gt;vitamin K&lt;/b&gt; given?" in page
    assert "<b>vitamin" not in page
    assert f"/runs/{id_}/case?id=note" in page
    assert browser.get(f"/runs/{id_}/case?id=note").status_code == 200
    found = parsed(browser.get(f"{path}/events").text)
    assert found[-1]["event"] == "end"
    assert browser.get(f"{path}/events", headers={"last-event-id": found[-1]["id"]}).status_code == 204
    assert "Ask a question" in browser.get("/").text


def test_no_other_page_may_send_the_form(browser: TestClient, place: Place) -> None:
    strangers: list[dict[str, str]] = [
        {},
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"},
        {**OWN, "host": "evil.example"},
    ]
    for headers in strangers:
        assert browser.post("/ask", data=TYPED, headers=headers).status_code == 403, headers
    assert browser.post("/ask", json=TYPED, headers=OWN).status_code == 415
    browser.cookies.clear()
    assert browser.post("/ask", data=TYPED, headers=OWN).status_code == 403
    assert [one.name for one in (place.root / ".jobs").iterdir()] == [".lock"]


def test_every_page_has_the_policy_that_runs_nothing_inline(browser: TestClient, service: Service) -> None:
    path = browser.post("/ask", data=TYPED, headers=OWN).headers["location"]
    ended(service, path)
    for page in ("/ask", path, f"{path}/events"):
        policy = browser.get(page).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"note": " "}, "note"),
        ({"question": ""}, "question"),
        ({"model": "gpt"}, "on offer"),
        ({"recipe": "x"}, "x"),
        ({"model": "x" * 1000}, "model"),
    ],
)
def test_a_refused_form_keeps_what_was_typed(browser: TestClient, typed: dict[str, str], said: str) -> None:
    answer = browser.post("/ask", data={**TYPED, **typed}, headers=OWN)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert said in answer.text
    assert typed.get("note", "Vitamin K was given") in answer.text


def test_the_page_obeys_the_rate(browser: TestClient, service: Service) -> None:
    answers = [browser.post("/ask", data=TYPED, headers=OWN) for _ in range(6)]
    assert [one.status_code for one in answers] == [303] * 5 + [429]


def test_a_run_is_cancelled_from_its_page(browser: TestClient, service: Service, place: Place) -> None:
    with place.held("answer"):
        path = browser.post("/ask", data={**TYPED, "model": "counting"}, headers=OWN).headers["location"]
        assert "Cancel" in browser.get(path).text
        assert browser.post(f"{path}/cancel", headers=OWN).status_code == 303
        ended(service, path)
    page = browser.get(path).text
    assert 'class="state cancelled"' in page
    assert "Cancel</button>" not in page
    for _ in range(2):
        path = browser.post("/ask", data=TYPED, headers=OWN).headers["location"]
        id_ = ended(service, path)
        # It has ended meanwhile, which its page says.
        cancelled = browser.post(f"{path}/cancel", headers=OWN)
        assert (cancelled.status_code, cancelled.headers["location"]) == (303, path)
        assert 'class="state finished"' in browser.get(path).text
    (place.root / id_ / "cases.jsonl").write_text("{broken\n")
    damaged = browser.get(path)
    assert (damaged.status_code, "answered" in damaged.text) == (200, False)


def test_a_run_that_was_submitted_with_its_own_cases_has_the_page_of_a_run(
    browser: TestClient, service: Service
) -> None:
    case = {"case_id": "1", "question": "Why?", "sentences": ["It leaked."]}
    for cases in ([case], [{**case, "case_id": "note"}, case]):
        job, _ = service.submit(ADMIN, Submission.model_validate({"cases": cases}), None)
        page = browser.get(f"/ask/{job.record.id}")
        assert (page.status_code, page.headers["location"]) == (303, f"/runs/{job.record.id}")


def test_who_may_only_view_asks_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("access.users._COST", (2, 8, 1))
    users = Users(place.folder / "people" / "users.json")
    token = users.add("vera", "view", NOW)[1]
    library = Library([place.root])
    signing_in = SigningIn(users, PORT, library.roots, clock=lambda: 0.0, now=lambda: NOW)
    with place.service() as service:
        asking = Asking(service, Rate(5, lambda: 0.0)).routes()
        app = application(library, PORT, TOKEN, signing_in=signing_in, asking=asking)
        vera = TestClient(app, base_url=HOME, follow_redirects=False)
        assert vera.post("/sign-in", data={"token": token}, headers=OWN).status_code == 303
        assert vera.get("/ask").status_code == 403
        assert vera.post("/ask", data=TYPED, headers=OWN).status_code == 403
        assert service.jobs.all() == []
    library.close()


@pytest.mark.parametrize("how", ["removed", "signed out"])
def test_the_stream_of_a_page_ends_with_its_session(place: Place, how: str) -> None:
    users = Users(place.folder / "people" / "users.json")
    token = users.add("ana", "submit", NOW)[1]
    library = Library([place.root])
    signing_in = SigningIn(users, PORT, library.roots, clock=lambda: 0.0, now=lambda: NOW)
    own = {"host": f"127.0.0.1:{PORT}", **OWN}
    with place.service() as service, place.held("answer"):
        asking = Asking(service, Rate(5, lambda: 0.0)).routes()
        app = application(library, PORT, TOKEN, signing_in=signing_in, asking=asking)
        with served(app) as address, httpx.Client(base_url=address, headers=own, timeout=LAST) as http:
            assert http.post("/sign-in", data={"token": token}).status_code == 303
            path = http.post("/ask", data={**TYPED, "model": "counting"}).headers["location"]
            with http.stream("GET", f"{path}/events") as stream:
                lines = stream.iter_lines()
                assert [*steps_until(lines, "generate_answer")]
                if how == "removed":
                    users.remove("ana")
                else:
                    assert http.post("/sign-out").status_code == 303
                # The model answers nothing yet: only the end of the stream ends this.
                assert "event: end" not in [*lines]
            assert http.get(f"{path}/events").status_code == 401
            assert service.runner.session(service.jobs.all()[0]).state == "running"
    signing_in.close()
    library.close()


def test_an_unknown_run_has_no_page(browser: TestClient) -> None:
    for path in ("/ask/unknown", "/ask/..%2f..%2fetc", "/ask/unknown/events"):
        assert browser.get(path).status_code == 404


@needs_browser
@pytest.mark.slow
def test_a_person_watches_the_nodes_in_a_browser(service: Service, place: Place) -> None:
    from playwright.sync_api import expect, sync_playwright

    library, bound = Library([place.root]), listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    rate = Rate(600, monotonic)
    pages = application(library, port, TOKEN, asking=Asking(service, rate).routes())
    server = uvicorn.Server(configured(pages))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        with sync_playwright() as started:
            opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = opened.new_page(viewport={"width": 390, "height": 844})
            page.set_default_timeout(LAST * 1000)
            expect.set_options(timeout=LAST * 1000)
            faults: list[str] = []
            page.on("console", lambda message: faults.append(message.text))
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.goto(f"http://127.0.0.1:{port}/ask?token={TOKEN}")
            page.fill("#question", "Why?")
            page.fill("#note", f"{NOTE} <script>alert(1)</script>")
            page.select_option("#model", "counting")
            with place.held("answer"):
                page.click("form button")
                expect(page.locator("[data-node=generate_answer]")).to_have_class("running")
                expect(page.locator("[data-node=label_evidence]")).to_have_class("done")
                expect(page.locator("#status")).to_have_text("running")
            expect(page.locator(".answered")).to_contain_text("made up by a script")
            expect(page.locator("#status")).to_have_text("finished")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390
            assert faults == []
            opened.close()
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
        library.close()
