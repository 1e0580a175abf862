"""Reviews that are sent with the form of a case's page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from starlette.testclient import TestClient

import runs
from runs.record.folder import RunWriter
from runs.review.reviewers import Assignments, ReviewedRun, assign
from runs.review.reviews import REVIEWS, Review, Reviews, make_review
from tests.runs.waiting import Place
from tests.viewer.case_runs import FileAddresses
from tests.viewer.conftest import PORT, TOKEN, rows
from tests.viewer.written_run import add, ended, new_run
from viewer.library import Library
from viewer.pages.case import case_page
from viewer.server import application

OURS = f"http://127.0.0.1:{PORT}"
HOSTILE = "<img src=x onerror=alert(1)></textarea><script>alert(2)</script>"


def parsed(page: str) -> Any:
    return lxml.html.fromstring(page)


class Reviewer:
    """Somebody who has opened the link, and fills in forms as a browser does."""

    def __init__(self, run: Path) -> None:
        self.path = run
        self.library = Library([run])
        app = application(self.library, PORT, TOKEN)
        self.client = TestClient(app, base_url=OURS, follow_redirects=False)
        self.client.get("/", params={"token": TOKEN})
        self.base = f"/runs/{run.name}"

    def page(self, case_id: str) -> Any:
        return parsed(self.client.get(f"{self.base}/review", params={"id": case_id}).text)

    def fields(self, case_id: str) -> dict[str, str]:
        """The form of a case as it stands."""
        page = self.page(case_id)
        form = page.get_element_by_id("review-form")
        chosen = page.xpath("//input[@form='review-form'][@checked]")
        # Browsers drop the line end behind the tag of a text area.
        given = {name: value.removeprefix("\n") for name, value in form.form_values()}
        return given | {one.get("name"): one.get("value") for one in chosen}

    def send(self, case_id: str, fields: dict[str, str], **headers: str) -> Any:
        return self.client.post(
            f"{self.base}/review",
            params={"id": case_id},
            data=fields,
            headers={"origin": OURS} | headers,
        )

    def review(self, case_id: str, **typed: str) -> Any:
        return self.send(case_id, self.fields(case_id) | {"reviewer": "Ann", "action": "save"} | typed)

    @property
    def written(self) -> list[dict[str, Any]]:
        path = self.path / REVIEWS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunWriter]:
    """`k0` is done, `k1` and `k3` wait, `k2` is done."""
    with new_run(tmp_path / "run", ["k0", "k1", "k2", "k3"]) as run:
        for number in range(4):
            waits = {"status": "waiting", "answer": None} if number % 2 else {}
            add(run, ended(f"k{number}", review=None, **waits))
        yield run


@pytest.fixture
def ann(run: RunWriter) -> Iterator[Reviewer]:
    reviewer = Reviewer(run.path)
    yield reviewer
    reviewer.library.close()


def test_a_changed_label_is_saved_with_the_others_confirmed(ann: Reviewer) -> None:
    answer = ann.review("k0", **{"label.1": "supplementary", "comment": "see 2"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/run/case?id=k0&saved=k0")
    (review,) = ann.written
    assert (review["reviewer"], review["named"], review["comment"]) == ("Ann", ["2"], "see 2")
    labels = {"1": "essential", "2": "supplementary", "3": "essential", "4": "not-relevant"}
    assert (review["labels"], review["answer"]) == (labels, None)
    page = ann.client.get(answer.headers["location"]).text
    assert "Saved: the review of case" in page
    assert "not essential &rarr; supplementary" in page


def test_one_press_confirms_labels_and_answer(ann: Reviewer) -> None:
    ann.review("k0", action="confirm")
    (review,) = ann.written
    assert (review["verdict"], review["named"], review["labels"]["2"]) == ("confirmed", [], "not-relevant")


def test_an_edited_answer_is_a_correction_and_labels_are_left_alone(ann: Reviewer) -> None:
    ann.review("k0", answer="It was\r\ntime.")
    (review,) = ann.written
    assert (review["labels"], review["answer"], review["verdict"]) == (None, "It was\ntime.", "corrected")


def test_the_next_form_starts_with_the_name_and_what_was_reviewed(ann: Reviewer) -> None:
    ann.review("k0", **{"label.1": "supplementary", "reviewer": "Dr. Ö; x"})
    assert (ann.fields("k0")["label.1"], ann.fields("k2")["reviewer"]) == ("supplementary", "Dr. Ö; x")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"reviewer": " "}, "reviewer"),
        ({"label.9": "essential"}, "the form names a sentence"),
        ({"label.0": "perhaps"}, "labels"),
        ({"comment": "", "label.1": "not-relevant"}, "says nothing"),
        ({"comment": "x" * 10_001}, "10,001 characters, of at most 10,000"),
    ],
)
def test_a_fault_comes_back_with_everything_typed(ann: Reviewer, typed: dict[str, str], told: str) -> None:
    kept = {"comment": "my words", "label.1": "not-relevant"} | typed
    answer = ann.review("k0", **kept)
    assert answer.status_code == 422
    page = parsed(answer.text)
    assert told in page.xpath("string(//*[@role='alert'])")
    assert page.get_element_by_id("review-comment").value.strip() == kept["comment"]
    assert ann.written == []


def test_an_outdated_page_writes_nothing_and_gives_back_what_was_typed(ann: Reviewer, run: RunWriter) -> None:
    fields = ann.fields("k0") | {"reviewer": "Ann", "comment": "my words", "label.1": "essential"}
    add(run, ended("k0", answer="Another answer."))
    answer = ann.send("k0", fields)
    assert (answer.status_code, ann.written) == (409, [])
    told = parsed(answer.text).xpath("//*[@role='alert']")[0]
    assert "another result since it was shown" in told.text_content()
    assert [one.text_content() for one in told.xpath(".//dd")] == ["essential", "Because.", "my words", "Ann"]
    assert told.xpath(".//a/@href") == ["/runs/run/review?id=k0"]
    add(run, ended("k0", labels={"1": "essential"}))
    told = parsed(ann.send("k0", fields | {"label.3": "essential"}).text).xpath("//*[@role='alert']")[0]
    assert [one.text_content() for one in told.xpath(".//dd")] == ["my words", "Ann"]


def test_a_review_of_somebody_else_in_between_is_not_undone(ann: Reviewer) -> None:
    fields = ann.fields("k0") | {"reviewer": "Ann", "label.1": "essential"}
    ann.review("k0", reviewer="Bo", **{"label.0": "supplementary"})
    assert ann.send("k0", fields).status_code == 409
    assert [one["reviewer"] for one in ann.written] == ["Bo"]


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"origin": "null"}])
def test_another_origin_writes_nothing(ann: Reviewer, headers: dict[str, str]) -> None:
    fields = ann.fields("k0") | {"reviewer": "Eve", "action": "confirm"}
    assert ann.send("k0", fields, **headers).status_code == 403
    assert ann.written == []


def test_without_the_key_nothing_is_written(ann: Reviewer) -> None:
    fields = ann.fields("k0") | {"reviewer": "Eve", "action": "confirm"}
    ann.client.cookies.clear()
    assert ann.send("k0", fields).status_code == 403
    assert ann.written == []


def test_a_body_too_large_and_one_that_is_no_form_are_refused(
    ann: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_ = {"content-type": "application/json"}
    assert ann.send("k0", ann.fields("k0"), **json_).status_code == 415
    monkeypatch.setattr("viewer.case_handlers.MAX_FORM", 50)
    assert ann.review("k0", action="confirm").status_code == 413
    assert ann.written == []


def test_save_and_next_goes_to_the_next_case_that_waits(ann: Reviewer) -> None:
    assert ann.client.get("/runs/run/review").headers["location"] == "/runs/run/review?id=k1"
    first = ann.review("k1", action="next", labels_right="on")
    assert first.headers["location"] == "/runs/run/review?id=k3&saved=k1"
    assert "Saved: the review of case" in ann.client.get(first.headers["location"]).text
    last = ann.review("k3", action="next", labels_right="on")
    assert last.headers["location"] == "/runs/run/case?id=k3&saved=k3"
    assert ann.client.get("/runs/run/review").headers["location"] == "/runs/run"


def test_the_next_case_of_an_assigned_reviewer_is_their_own(ann: Reviewer, run: RunWriter) -> None:
    Assignments(run.path).add(*assign(["k0", "k3"], ["Ann"], 1, {}), *assign(["k1", "k2"], ["Bo"], 1, {}))
    first = ann.review("k0", action="next", labels_right="on")
    assert first.headers["location"] == "/runs/run/review?id=k3&saved=k0"
    other = ann.review("k0", action="next", reviewer="Cy", labels_right="on")
    assert other.headers["location"] == "/runs/run/review?id=k2&saved=k0"
    last = ann.review("k3", action="next", labels_right="on")
    assert last.headers["location"] == "/runs/run/case?id=k3&saved=k3"


def test_a_waiting_case_names_what_votes_differ_on_and_then_how_it_goes_on(ann: Reviewer) -> None:
    waiting = ann.page("k1").xpath("//p[@class='caution']")[0]
    assert waiting.text_content().startswith(
        "This case waits for a person to label its sentences. Votes differ"
    )
    assert waiting.xpath("./a/text()") == ["2", "3"]
    ann.review("k1", labels_right="on")
    assert "continues by itself once the session has ended" in ann.page("k1").text_content()


def test_rows_carry_states_only_while_the_reader_lacks_them(ann: Reviewer, run: RunWriter) -> None:
    first = rows(ann.client, "run")
    assert first["reviews"] == {"k1": "waiting", "k3": "waiting"}
    ann.review("k0", action="confirm")
    ann.review("k1", labels_right="on")
    asked = {"since": str(first["version"]), "reviews": str(first["reviews_version"])}
    later = ann.client.get("/runs/run/rows.json", params=asked).json()
    assert later["columns"]["id"] == []
    assert later["reviews"] == {"k0": "reviewed", "k1": "reviewed", "k3": "waiting"}
    assert later["live"]["reviews"] == "1 waiting, 2 reviewed"
    asked["reviews"] = later["reviews_version"]
    assert ann.client.get("/runs/run/rows.json", params=asked).json()["reviews"] is None
    add(run, ended("k0", answer="Another answer.", review=None))
    ann.library.get("run")._looked = 0.0  # type: ignore[union-attr]
    assert rows(ann.client, "run")["reviews"]["k0"] == "stale"


def test_the_page_of_a_run_tells_the_commands_and_gives_the_gold(ann: Reviewer) -> None:
    ann.review("k0", **{"label.1": "supplementary"})
    page = ann.client.get("/runs/run").text
    assert f"evigraph review {ann.path} --export gold.jsonl" in page
    assert f"evigraph demos add --from-reviews {ann.path} --to" in page
    gold = ann.client.get("/runs/run/gold.jsonl")
    (case,) = [json.loads(line) for line in gold.text.splitlines()]
    assert (case["case_id"], case["labels"]["2"]) == ("k0", "supplementary")


def test_gold_of_no_reviews_is_one_line(ann: Reviewer) -> None:
    answer = ann.client.get("/runs/run/gold.jsonl")
    assert (answer.status_code, "no labels or answers reviewed yet" in answer.text) == (422, True)


def test_hostile_text_of_a_review_is_text(ann: Reviewer) -> None:
    ann.review("k0", reviewer=HOSTILE, comment=HOSTILE, answer=HOSTILE)
    assert len(ann.written) == 1
    for address in ("/runs/run/case?id=k0&saved=k0", "/runs/run/review?id=k0"):
        page = ann.client.get(address)
        assert page.text.count("alert(2)") >= 4
        assert "<img" not in page.text
        assert "<script>" not in page.text
    assert ann.page("k0").get_element_by_id("review-name").value == HOSTILE


def test_a_page_on_disk_shows_reviews_and_no_form(run: RunWriter) -> None:
    made: Review = make_review(ended("k0", review=None), reviewer="Ann", labels={}, comment="as it is")
    Reviews(run.path).add(made)
    with runs.open(run.path) as opened:
        page = case_page(opened, "run", "k0", FileAddresses(), ReviewedRun(run.path).standing("k0"))
    assert "as it is" in page
    assert "review-form" not in page
    assert "<fieldset" not in page


def test_a_case_reviewed_in_the_page_goes_on_with_resume(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.start()
    ann = Reviewer(place.run)
    assert f"evigraph resume {place.run}" not in ann.page("k0").text_content()
    ann.review("k0", **{"label.2": "essential"})
    assert f"evigraph resume {place.run}" in ann.page("k0").text_content()
    ann.library.close()
    place.resume()
    went_on, waits = place.lines()["k0"], place.lines()["k2"]
    assert (went_on["status"], went_on["review"]["reviewer"], waits["status"]) == ("done", "Ann", "waiting")
    assert went_on["labels"]["3"] == "essential"
