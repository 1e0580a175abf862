"""Who reviews what, and which review counts where several people have labelled a case."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runs.record.manifest import RunError
from runs.review.reviewers import ReviewedRun, Standing, assign, decide, names, queue_of
from runs.review.reviews import REVIEWS, Review, Reviews, is_stale, make_independent_review

LINE: dict[str, Any] = {"case_id": "q", "labels": {"1": "essential", "2": "not-essential"}, "answer": None}


def blind(name: str, *labels: str) -> Review:
    given = dict(zip(("1", "2"), labels, strict=True))
    return make_independent_review(LINE, ("1", "2"), reviewer=name, labels=given)


def test_everybody_gets_as_many_cases_and_meets_everybody() -> None:
    made = assign([f"q{number}" for number in range(12)], ["a", "b", "c"], 2, {})
    assert Counter(name for one in made for name in one.reviewers) == {"a": 8, "b": 8, "c": 8}
    assert set(Counter(frozenset(one.reviewers) for one in made).values()) == {4}


def test_what_is_assigned_stays() -> None:
    known = {"q0": ("a", "b"), "q1": ("a",)}
    (made,) = assign(["q0", "q1"], ["a", "b"], 2, known)
    assert (made.case_id, made.reviewers) == ("q1", ("a", "b"))
    with pytest.raises(RunError, match="3 reviewers, but only 2 named"):
        assign(["q0"], ["a", "b"], 3, {})
    with pytest.raises(RunError, match="reviewer 'a' is named twice"):
        names("a, b,a")
    with pytest.raises(RunError, match="reviewer '': is empty"):
        names("a,,b")
    assert names(" a , b") == ["a", "b"]


def test_the_labels_of_an_assigned_case_count_once_all_agree_or_one_decides() -> None:
    first, second = blind("a", "essential", "supplementary"), blind("b", "essential", "not-relevant")
    assert Standing(("a", "b"), [first]).counting is None
    assert Standing(("a", "b"), [first]).missing == ["b"]
    differs = Standing(("a", "b"), [first, second])
    assert (differs.differing, differs.undecided, differs.counting) == (["2"], True, None)
    # Without an assignment the last one counts, as ever.
    assert Standing((), [first, second]).counting is second
    with pytest.raises(RunError, match="reviewers differ on 2; label each of them"):
        decide(LINE, differs, reviewer="lead", labels={"1": "essential"})
    decision = decide(LINE, differs, reviewer="lead", labels={"2": "supplementary"})
    assert decision.labels == {"1": "essential", "2": "supplementary"}
    assert decision.words == "adjudicated, essential: 1"
    decided = Standing(("a", "b"), [first, second, decision])
    assert (decided.counting, decided.undecided) == (decision, False)
    # Labelling the case again reopens it.
    assert Standing(("a", "b"), [first, second, decision, second]).undecided
    assert decision.corrected == [] == first.corrected
    assert Standing(("a", "b"), [first, second, blind("b", "essential", "supplementary")]).counting


def test_what_nobody_can_label_or_has_labelled_is_not_decided() -> None:
    with pytest.raises(RunError, match="case 'q': it has no labels by a person yet"):
        decide(LINE, Standing(("a",), ()), reviewer="lead", labels={"1": "essential"})
    with pytest.raises(RunError, match="its note has no sentences to label"):
        make_independent_review(LINE, (), reviewer="a", labels={})


def test_without_assignments_everybody_has_all_cases() -> None:
    queue = queue_of("a", ["1", "2"], {"1": Standing((), [blind("a", "essential", "essential")])})
    assert (queue.case_ids, queue.open) == (("1", "2"), ["2"])


def test_a_queue_starts_again_with_what_was_skipped() -> None:
    standings = {id_: Standing(("a",), ()) for id_ in ("1", "2", "3")} | {"4": Standing(("b",), ())}
    queue = queue_of("a", ["1", "2", "3", "4"], standings)
    assert queue.open == ["1", "2", "3"]
    assert (queue.after("2"), queue.after("3"), queue_of("b", ["4"], standings).after("4")) == (
        "3",
        "1",
        None,
    )


def test_a_blind_review_outlasts_a_new_result_and_old_lines_are_read(tmp_path: Path) -> None:
    assert not is_stale(blind("a", "essential", "essential"), LINE | {"answer": "Another.", "review": None})
    old = (
        '{"case_id":"q","reviewer":"Ann","reviewed_at":"2026-01-02T03:04:05.000+00:00","labels":{"1":"essential"},'
        '"named":[],"shown_labels":{"1":"essential"},"answer":null,"verdict":null,"comment":"","shown":"'
        + "0" * 64
        + '"}\n'
    )
    (tmp_path / REVIEWS).write_text(old)
    Reviews(tmp_path).add(blind("b", "essential", "essential"))
    assert list(ReviewedRun(tmp_path).standing("q").by_reviewer) == ["Ann", "b"]
