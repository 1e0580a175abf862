"""Cases that wait for a person: the batch goes on, and so do they after a review."""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path
from typing import Any

import pytest

from graph.recipe import RecipeError, make_recipe
from runs.record.folder import CASES, RunFolder
from runs.review.reviews import Reviews, make_review
from runs.upkeep.check import repair_run
from tests.runs.waiting import Place, Watching


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def nameless(path: Path) -> list[dict[str, Any]]:
    """The lines without who reviewed and when."""
    lines = list(RunFolder(path).cases())
    for line in lines:
        if line["review"]:
            del line["review"]["reviewer"], line["review"]["reviewed_at"]
    return lines


def test_contested_cases_wait_and_the_batch_goes_on(place: Place) -> None:
    watcher = Watching()
    folder = place.start(watcher=watcher)
    assert {id_: line["status"] for id_, line in place.lines().items()} == {
        **{"k0": "waiting", "k1": "done", "k2": "waiting", "k3": "done"}
    }
    counts = folder.manifest.counts
    assert (folder.manifest.status, counts.done, counts.failed, counts.waiting) == ("finished", 2, 0, 2)
    line = place.lines()["k0"]
    assert (line["error"], line["answer"], line["flags"]) == (None, None, ["waits_for_review"])
    assert line["labels"]["1"] == "essential"
    assert watcher.notices[-1] == f"cases wait for a person: evigraph review {place.run}"
    assert [step["node"] for step in folder.trace("k0")[-2:]] == ["await_review", "__end__"]
    assert folder.trace("k0")[-2]["because"] == (
        "waits for a person: 3 votes differ on 2 of 6 sentences (limit 0.3)"
    )


def test_a_resumed_case_goes_on_with_its_review_and_asks_nothing_twice(place: Place) -> None:
    place.start()
    before = place.calls
    place.review("k2", s3="essential", s1="not-relevant")
    folder = place.resume()
    assert place.calls[len(before) :] == ["answer k2 0"]
    line = place.lines()["k2"]
    assert (line["status"], line["answer_evidence"], line["flags"]) == ("done", ["3"], ["reviewed"])
    assert line["review"] == {
        "reviewer": "Ann",
        "reviewed_at": Reviews(place.run).latest()["k2"].reviewed_at,
        "changed": ["1", "3"],
    }
    assert place.lines()["k0"]["status"] == "waiting"
    assert folder.manifest.counts.waiting == 1
    nodes = [step["node"] for step in folder.trace("k2")]
    assert nodes.count("await_review") == 1
    assert nodes[-2:] == ["check_answer", "__end__"]


def test_a_review_that_comes_in_while_the_batch_runs_is_used_by_the_next_session(place: Place) -> None:
    def act() -> None:
        place.review("k0", s2="essential")

    place.start(watcher=Watching(act))
    assert place.lines()["k0"]["status"] == "waiting"
    place.resume()
    assert place.lines()["k0"]["answer_evidence"] == ["1", "2"]
    assert len(place.calls) == len(set(place.calls))
    assert [*place.lines()] == ["k0", "k1", "k2", "k3"]


def test_two_runs_with_equal_reviews_differ_in_who_and_when_alone(place: Place) -> None:
    for out in ("run", "other"):
        place.start(out=out)
        place.review("k0", out=out, s2="essential")
        place.resume(out=out)
    assert nameless(place.run) == nameless(place.folder / "other")


def test_a_kill_between_the_wait_and_the_answer_costs_no_answered_call(place: Place) -> None:
    place.start()
    place.review("k0", s2="essential")
    before = place.calls
    (place.folder / "kill").touch()
    # A fork has all imports done, which take longer than the test.
    child = multiprocessing.get_context("fork").Process(target=place.resume)
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    (place.folder / "kill").unlink()
    assert place.lines()["k0"]["status"] == "waiting"
    assert place.resume().manifest.counts.done == 3
    # Asked before the kill and after, as its reply never came.
    assert place.calls[len(before) :] == ["answer k0 0", "answer k0 0"]
    assert place.lines()["k0"]["answer_evidence"] == ["1", "2"]


def test_a_reviewed_case_that_failed_later_is_retried_with_its_review(place: Place) -> None:
    place.start()
    place.review("k0", s2="essential")
    (place.folder / "fail").touch()
    assert place.resume().manifest.counts.errors == {"timeout": 1}
    (place.folder / "fail").unlink()
    place.resume(again=True)
    assert (place.lines()["k0"]["status"], place.lines()["k2"]["status"]) == ("done", "waiting")
    assert place.lines()["k0"]["answer_evidence"] == ["1", "2"]


def test_a_review_of_another_result_leaves_the_case_waiting(place: Place) -> None:
    place.start()
    line = place.lines()["k0"]
    line["labels"]["5"] = "essential"
    Reviews(place.run).add(make_review(line, reviewer="Ann", labels={}))
    watcher = Watching()
    before = place.calls
    place.resume(watcher)
    assert "case k0 still waits: its review was given on another result" in watcher.notices
    assert (place.lines()["k0"]["status"], place.calls) == ("waiting", before)


def test_a_case_whose_line_is_lost_does_not_go_on_with_a_review_of_another_result(place: Place) -> None:
    place.start()
    line = place.lines()["k0"]
    line["labels"]["5"] = "essential"
    Reviews(place.run).add(make_review(line, reviewer="Ann", labels={}))
    path = place.run / CASES
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    repair_run(place.run)
    place.resume()
    assert place.lines()["k0"]["status"] == "waiting"


def test_a_comment_alone_leaves_the_case_waiting(place: Place) -> None:
    place.start()
    Reviews(place.run).add(make_review(place.lines()["k0"], reviewer="Ann", comment="Hard."))
    place.resume()
    assert place.lines()["k0"]["status"] == "waiting"


def test_a_system_without_reviews_refuses_their_section() -> None:
    with pytest.raises(RecipeError, match="unknown field 'review'"):
        make_recipe({"system": "weak_labels", "review": {"disagreement": 0}}, "mine.yaml")
