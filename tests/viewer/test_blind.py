"""Blind reviews: what their pages must not show, and what comes of two people who label the same cases."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from cases.formats.plain_jsonl import write_jsonl
from cases.load import find_cases
from cases.records import Case
from cli.main import main
from runs.record.folder import RunFolder
from runs.review.reviewers import Assignments, ReviewedRun, assign
from runs.review.reviews import DEFINITIONS, Reviews, make_review
from tests.runs.waiting import Place
from tests.viewer.browsing import needs_browser, served
from tests.viewer.conftest import PORT, TOKEN
from tests.viewer.written_run import add, ended, finish, new_run
from viewer.blind_handlers import Blind
from viewer.going_on import GoingOn
from viewer.library import Library
from viewer.server import application

OURS = f"http://127.0.0.1:{PORT}"
IDS = [f"k{number:02}" for number in range(20)]
ANSWER, INTENT, OTHERS, FLAG = (
    "Heparin was stopped.",
    "treatment_plan",
    "Not what Ben thinks",
    "missing_votes",
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Twenty cases for Anna and Ben; both have reviewed the first one before, and saw its labels."""
    with new_run(tmp_path / "run", IDS) as run:
        for id_ in IDS:
            add(run, ended(id_, review=None, answer=ANSWER, flags=[FLAG]))
        finish(run)
    line = RunFolder(run.path).require_case("k00")
    for name in ("ben", "anna"):
        Reviews(run.path).add(make_review(line, reviewer=name, labels={"4": "essential"}, comment=OTHERS))
    Assignments(run.path).add(*assign(IDS, ["anna", "ben"], 2, {}))
    return run.path


class BlindReviewer:
    def __init__(self, run: Path, name: str | None = "anna", going_on: GoingOn | None = None) -> None:
        self.library = Library([run])
        app = application(self.library, PORT, TOKEN, going_on=going_on, blind=Blind(name))
        self.client = TestClient(app, base_url=OURS, follow_redirects=False)
        self.client.get("/", params={"token": TOKEN})
        self.base = f"/runs/{run.name}"

    def send(self, case_id: str, **fields: str) -> tuple[int, str, str]:
        sent = self.client.post(
            f"{self.base}/review", params={"id": case_id}, data=fields, headers={"origin": OURS}
        )
        return sent.status_code, sent.headers.get("location", ""), sent.text


@pytest.fixture
def anna(run: Path) -> Iterator[BlindReviewer]:
    reviewer = BlindReviewer(run)
    yield reviewer
    reviewer.library.close()


def told(page: str) -> list[str]:
    """What a page tells of the run, of its key, or of other reviewers."""
    gone = ("checked", "vote", "F1", "failed", "not-essential", "key:", "done", "calls")
    return [word for word in (ANSWER, INTENT, OTHERS, FLAG, "ben", *gone) if word in page]


def test_no_page_shows_what_run_key_or_others_say(anna: BlindReviewer) -> None:
    start = anna.client.get(anna.base).text
    assert "0 of 20 cases reviewed, 20 remaining" in start
    page = anna.client.get(f"{anna.base}/review", params={"id": "k00"}).text
    assert "Sentence 4." in page and "1 of 20" in page
    assert told(start) == told(page) == []
    # Nor does any address of the other viewer lead anywhere.
    for path in (
        "/case?id=k00",
        "/rows.json",
        "/gold.jsonl",
        "/reviewers",
        "/verify?id=k00",
        "/state?id=k00",
    ):
        assert anna.client.get(anna.base + path).status_code == 404
    for path in (
        f"{anna.base}/adjudicate?id=k00",
        "/compare?run=run&run=run",
    ):
        assert anna.client.get(path).status_code == 404


def test_labels_are_saved_with_doubts_and_time(anna: BlindReviewer, run: Path) -> None:
    fields = {"label.0": "essential", "unsure.1": "on", "label.1": "supplementary", "seconds": "12.5"}
    code, _, page = anna.send("k00", **fields)
    assert code == 422 and "no label for sentence 3, 4" in page and page.count("checked") == 3
    code, target, _ = anna.send("k00", **fields, rest="on", action="next")
    assert (code, target) == (303, "/runs/run/review?id=k01&saved=k00")
    review = Reviews(run).history("k00")[-1]
    assert review.labels == {
        "1": "essential",
        "2": "supplementary",
        "3": "not-relevant",
        "4": "not-relevant",
    }
    assert (review.blind, review.unsure, review.seconds) == (True, ("2",), 12.5)
    assert review.words == "labelled blind, essential: 1, unsure of 2"
    assert "1 of 20 cases reviewed, 19 remaining, 12.5 s spent" in anna.client.get(anna.base).text
    assert anna.client.get(f"{anna.base}/review").headers["location"] == "/runs/run/review?id=k01"


def test_a_saved_review_is_open_to_change(anna: BlindReviewer) -> None:
    fields = {"label.0": "essential", "unsure.1": "on", "comment": "my words", "rest": "on"}
    code, target, _ = anna.send("k00", **fields, action="save")
    assert (code, target) == (303, "/runs/run/review?id=k00")
    page = anna.client.get(target).text
    assert page.count(" checked") == 5 and "my words" in page and "What you save now" in page


def test_the_last_case_leads_back_to_the_list(anna: BlindReviewer) -> None:
    targets = [anna.send(id_, rest="on")[1] for id_ in IDS]
    assert targets[-1] == "/runs/run?saved=k19"
    assert anna.client.get(f"{anna.base}/review").headers["location"] == "/runs/run"


def test_nobody_reviews_what_is_assigned_to_others(run: Path) -> None:
    stranger = BlindReviewer(run, None)
    code, _, page = stranger.send("k00", rest="on")
    assert code == 404 and "names no reviewer" in page
    assert len(Reviews(run).history("k00")) == 2
    assert stranger.client.get(f"{stranger.base}/review?id=k00").headers["location"] == "/runs/run"
    assert "No case of this run is assigned to" in stranger.client.get(f"{stranger.base}?by=cleo").text
    assert stranger.client.get(f"{stranger.base}/review?id=k00").status_code == 404
    assert "one line without commas" in stranger.client.get(f"{stranger.base}?by=anna,ben").text
    stranger.library.close()


def test_several_runs_are_listed(run: Path) -> None:
    new_run(run.parent / "second", IDS).close()
    library = Library([run, run.parent / "second"])
    client = TestClient(application(library, PORT, TOKEN, blind=Blind()), base_url=OURS)
    page = client.get("/", params={"token": TOKEN}).text
    library.close()
    assert [page.count(f'href="/runs/{name}"') for name in ("run", "second", "third")] == [1, 1, 0]


def test_a_case_without_sentences_or_with_changed_texts_is_not_shown(run: Path) -> None:
    write_jsonl(run.parent / "run.jsonl", [Case(id_, "", "Why?", ()) for id_ in IDS])
    manifest = RunFolder(run).manifest
    for told in ("the case files have changed since the run", "The note of case k00 has no sentences"):
        anna = BlindReviewer(run)
        answer = anna.client.get(f"{anna.base}/review", params={"id": "k00"})
        anna.library.close()
        assert (answer.status_code, told in answer.text) == (422, True), answer.text
        manifest.inputs.sha256 = find_cases([run.parent / "run.jsonl"]).digest()
        (run / "run.json").write_text(manifest.model_dump_json())


def test_a_waiting_case_goes_on_by_itself_once_both_agree_or_it_is_decided(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.start()
    Assignments(place.run).add(*assign(["k0", "k2"], ["anna", "ben"], 2, {}))
    resumed = threading.Event()

    def command(run: Path) -> list[str]:
        resumed.set()
        main = "from cli.main import main; main()"
        return [sys.executable, "-P", "-c", main, "resume", str(run), "--reviewed"]

    going_on = GoingOn(command)
    for name in ("anna", "ben"):
        assert not resumed.is_set()
        reviewer = BlindReviewer(place.run, name, going_on)
        # They differ on the other one, which waits for a decision.
        for case_id, label in (
            ("k0", "essential"),
            ("k2", "essential" if name == "ben" else "supplementary"),
        ):
            assert reviewer.send(case_id, **{"label.0": label}, rest="on")[0] == 303
        reviewer.library.close()

    def ended() -> dict[str, str]:
        for thread in threading.enumerate():
            if thread.name == "resume run":
                thread.join(60)
        assert going_on.progress(place.run) is None
        return {id_: line["status"] for id_, line in place.lines().items()}

    assert ended() == {"k0": "done", "k1": "done", "k2": "waiting", "k3": "done"}
    assert place.lines()["k0"]["review"]["reviewer"] == "ben"
    assert ReviewedRun(place.run).standing("k2").undecided
    library = Library([place.run])
    client = TestClient(application(library, PORT, TOKEN, going_on=going_on), base_url=OURS)
    client.get("/", params={"token": TOKEN})
    decision = {"reviewer": "cleo", "label.0": "essential", "rest": "on"}
    sent = client.post("/runs/run/adjudicate?id=k2", data=decision, headers={"origin": OURS})
    library.close()
    assert sent.status_code == 200
    assert ended()["k2"] == "done"


@needs_browser
def test_twenty_cases_by_keyboard_alone(browser: Browser, run: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    with served(run, Blind("anna")) as link:
        page.goto(link)
        expect(page.locator("#start")).to_be_focused()
        page.keyboard.press("Enter")
        for number, id_ in enumerate(IDS):
            expect(page.locator("h1 .id")).to_have_text(id_)
            expect(page.locator("#s-0")).to_be_focused()
            assert told(page.content()) == [] or number > 0
            for key in ("e", "u", "s", "x", "e") if number % 2 else ("x", "e", "a"):
                page.keyboard.press(key)
            page.keyboard.press("Control+Enter")
        expect(page.locator("main")).to_contain_text("All are reviewed.")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.close()
    assert faults == []
    reviews = [one["anna"] for one in (s.by_reviewer for s in ReviewedRun(run).standings().values())]
    assert [one.blind and one.seconds is not None for one in reviews] == [True] * 20
    assert list((reviews[0].labels or {}).values()) == ["not-relevant", "essential", *["not-relevant"] * 2]


def test_differences_are_decided_into_a_key_that_scores(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("anna", "ben"):
        reviewer = BlindReviewer(run, name)
        for number, id_ in enumerate(IDS):
            own = {"label.2": "essential"} if name == "ben" and number == 3 else {}
            assert reviewer.send(id_, **{"label.0": "essential"}, **own, rest="on")[0] == 303
        reviewer.library.close()

    def evigraph(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["evigraph", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        return str(err if done.value.code else out)

    key = str(run.parent / "key.json")
    assert "reviewers differ on 1 case: k03; decide" in evigraph(
        "review", "adjudicate", str(run), "--out", key
    )
    library = Library([run])
    client = TestClient(application(library, PORT, TOKEN), base_url=OURS, follow_redirects=False)
    client.get("/", params={"token": TOKEN})
    assert "They differ on" in client.get("/runs/run/reviewers").text
    page = client.get("/runs/run/adjudicate?id=k03").text
    assert "1 difference" in page and page.count("checked") == 3
    assert "<dt>patient</dt>" in page and DEFINITIONS["supplementary"] in page
    fields = {"reviewer": "lead", "label.2": "supplementary"}
    sent = client.post("/runs/run/adjudicate?id=k03", data=fields, headers={"origin": OURS})
    assert sent.headers["location"] == "/runs/run/reviewers"
    library.close()
    told = json.loads(evigraph("review", "adjudicate", str(run), "--out", key, "--json"))
    assert [told[name] for name in ("cases", "agreed", "adjudicated", "alone")] == [20, 19, 1, 0]
    scored = json.loads(evigraph("score", str(run), "--key", key, "--json"))
    assert scored["tasks"][0]["scored_cases"] == 20


@needs_browser
def test_question_definitions_and_keys_stay_in_view(browser: Browser, run: Path) -> None:
    page = browser.new_page(viewport={"width": 1000, "height": 400})
    with served(run, Blind("anna")) as link:
        page.goto(link)
        page.locator("#start").click()
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        assert page.evaluate("window.scrollY") > 0
        shown = page.locator(".labelling")
        assert all(words in shown.inner_text() for words in ("patient", *DEFINITIONS.values()))
        expect(shown.locator("dd").first).to_be_in_viewport()
        expect(shown.locator("kbd").first).to_be_in_viewport()
        page.close()
