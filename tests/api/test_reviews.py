"""Reviews over the API: a case that waited goes on, by its reviewer's labels, and nothing is paid twice."""

from __future__ import annotations

import json
from typing import Any

from runs.review.reviewers import Assignments, assign
from runs.review.reviews import Reviews
from tests.api.services import QUESTION, Client, Place, until

ASKING = {**QUESTION, "recipe": "asking"}


def waiting(client: Client, place: Place) -> tuple[str, str]:
    """A run whose case waits, and the address of its review."""
    (place.folder / "differ").touch()
    id_ = client.submitted(ASKING)
    found = client.ended(id_)
    assert found["cases"]["waiting"] == 1, found
    return id_, f"/v1/runs/{id_}/cases/note/review"


def test_a_reviewer_sees_what_the_votes_differ_on(client: Client, place: Place) -> None:
    _, path = waiting(client, place)
    found: dict[str, Any] = client.call("GET", path, "review").json()
    assert found["question"] == QUESTION["question"]
    assert [(one["id"], one["contested"]) for one in found["sentences"]] == [
        ("1", True),
        ("2", True),
        ("3", False),
    ]
    assert found["sentences"][1]["text"] == "Vitamin K was given."
    assert found["reviews"] == []


def test_a_reviewed_case_goes_on_and_pays_for_its_answer_alone(client: Client, place: Place) -> None:
    id_, path = waiting(client, place)
    paid = place.calls
    seen = client.events(id_)[-1]["id"]
    shown = client.call("GET", path, "review").json()["shown"]
    labels = {"1": "not-relevant", "2": "not-relevant", "3": "essential"}
    saved = client.call("POST", path, "review", json={"labels": labels, "shown": shown})
    assert saved.status_code == 201, saved.text
    assert saved.json()["goes_on"] is True
    assert saved.json()["reviewer"] == "review"
    assert client.ended(id_)["cases"] | {"errors": {}} == {
        **{"total": 1, "done": 1, "failed": 0, "waiting": 0},
        "errors": {},
    }
    line = client.call("GET", f"/v1/runs/{id_}/cases/note").json()
    assert line["review"]["reviewer"] == "review"
    assert line["labels"] == {"1": "not-essential", "2": "not-essential", "3": "essential"}
    new = place.calls[len(paid) :]
    assert new == ["answer note 0"]
    # A client that has seen the case wait hears how it continued.
    more = client.events(id_, seen)
    assert [one["data"]["status"] for one in more if one["event"] == "case"] == ["done"]
    log = [json.loads(one) for one in (place.root / id_ / "audit.jsonl").read_text().splitlines()]
    assert [one["person"] for one in log if one["event"] == "reviewed"] == ["review"]


def test_a_review_of_another_result_is_refused(client: Client, place: Place) -> None:
    id_, path = waiting(client, place)
    refused = client.call("POST", path, json={"labels": {}, "shown": "0" * 64})
    assert (refused.status_code, refused.json()["pointer"]) == (409, "/shown")
    shown = client.call("GET", path).json()["shown"]
    for wrong in ({"labels": {"9": "essential"}}, {}, {"labels": {"1": "vital"}}, {"answer": ""}):
        assert client.call("POST", path, json={**wrong, "shown": shown}).status_code == 422, wrong
    assert client.status(id_)["cases"]["waiting"] == 1


def test_a_review_that_came_before_a_kill_counts_after_it(place: Place) -> None:
    with place.client() as client:
        id_, path = waiting(client, place)
        client.service.draining = True
        sent = {"labels": {}, "shown": client.call("GET", path).json()["shown"]}
        assert client.call("POST", path, json=sent).json()["goes_on"] is False
        assert client.status(id_)["cases"]["waiting"] == 1
    with place.client() as client:
        assert client.ended(id_)["cases"]["done"] == 1


def test_a_reviewer_sees_no_labels_of_others_until_all_have_labelled(client: Client, place: Place) -> None:
    id_, path = waiting(client, place)
    run = place.root / id_
    Assignments(run).add(*assign(["note"], ["ana", "ben"], 2, {}))
    first: dict[str, Any] = client.call("GET", path, name="ana").json()
    given = {"labels": {"1": "not-relevant", "3": "essential"}, "comment": "Not what Ben thinks."}
    assert client.call("POST", path, name="ana", json={**given, "shown": first["shown"]}).status_code == 201
    of_ben = client.call("GET", path, name="ben")
    assert of_ben.json() == first, "shows Ana's labels"
    every: dict[str, Any] = client.call("GET", path, "admin").json()
    assert every["sentences"][0]["label"] == "not-relevant"
    # What Ben confirms is the labels that he saw: those of the run.
    sent = {"labels": {}, "shown": of_ben.json()["shown"]}
    assert client.call("POST", path, name="ben", json=sent).status_code == 201
    labels = {one.reviewer: one.labels for one in Reviews(run).history("note")}
    assert labels["ben"] == {"1": "essential", "2": "not-relevant", "3": "not-relevant"}
    # All have labelled it now, so there is more to see than Ana has seen.
    stale = client.call("POST", path, name="ana", json={**given, "shown": first["shown"]})
    assert (stale.status_code, stale.json()["pointer"]) == (409, "/shown")
    assert len(client.call("GET", path, name="ana").json()["reviews"]) == 2


def test_a_review_that_comes_in_while_another_case_goes_on_is_not_lost(client: Client, place: Place) -> None:
    (place.folder / "differ").touch()
    case = {"question": "Why?", "sentences": ["A drain was placed.", "It leaked."]}
    cases = [{"case_id": id_, **case} for id_ in ("a", "b")]
    run = client.submitted({"cases": cases, "recipe": "asking"})
    assert client.ended(run)["cases"]["waiting"] == 2
    with place.held("answer"):
        for id_ in ("a", "b"):
            path = f"/v1/runs/{run}/cases/{id_}/review"
            shown = client.call("GET", path).json()["shown"]
            assert client.call("POST", path, json={"labels": {}, "shown": shown}).json()["goes_on"] is True
            until(lambda: place.calls, lambda calls: "answer a 0" in calls)
        assert "answer b 0" not in place.calls
    assert client.ended(run)["cases"]["done"] == 2


def test_a_review_names_the_view_that_it_is_about(client: Client, place: Place) -> None:
    _, path = waiting(client, place)
    missing = client.call("POST", path, json={"labels": {}})
    assert (missing.status_code, missing.json()["pointer"]) == (422, "/shown")
    sent = {"labels": {}, "shown": client.call("GET", path).json()["shown"]}
    assert client.call("POST", path, "review", json=sent).status_code == 201
    # The same view again is one in which there was no review.
    assert client.call("POST", path, "admin", json=sent).status_code == 409
