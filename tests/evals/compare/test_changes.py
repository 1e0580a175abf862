from __future__ import annotations

import pytest

from evals.compare.changes import (
    CaseChange,
    by_gain,
    case_change,
    intent_changes,
    route_changes,
)
from evals.scoring.gold import Labels
from tests.evals.compare.builders import gold, outcome

LABELS = gold(k="1 2")["k"]


def change(first: str, second: str, labels: Labels | None = LABELS) -> CaseChange:
    return case_change(outcome("k", first), outcome("k", second), labels)


def test_sentences_are_told_by_what_the_key_says_of_them() -> None:
    found = change("1 3", "2 4").sentences
    assert found == (("2",), ("1",), ("4",), ("3",))


def test_f1_is_strict() -> None:
    f1 = change("1", "1 2 4").f1
    assert f1 == pytest.approx((2 / 3, 4 / 5))


def test_without_labels_in_the_key_only_changes_are_told() -> None:
    found = change("1 3", "2 3", None)
    assert (found.f1, found.sentences, found.added, found.removed) == (None, None, ("2",), ("1",))


def test_other_sentence_ids_are_not_compared() -> None:
    found = case_change(outcome("k", "1"), outcome("k", "2", sentences="2 3"), LABELS)
    assert not found.same_sentences
    assert (found.added, found.f1, found.sentences) == ((), None, None)


def test_the_largest_gains_and_losses_come_first() -> None:
    cases = [change("1", "1 2"), change("", "1 2"), change("1 2", "1"), change("1 2", ""), change("1", "1")]
    gained, lost = by_gain(cases)
    assert (gained, lost) == ([cases[1], cases[0]], [cases[3], cases[2]])


def test_a_route_is_told_by_the_steps_that_one_run_alone_took() -> None:
    straight = outcome("k", route=("answer -> check", "check -> end"))
    corrected = outcome("k", route=("answer -> check", "check -> answer", "answer -> check", "check -> end"))
    found = case_change(straight, corrected, None)
    assert (found.route_changed, found.steps_left, found.steps_taken) == (True, (), ("check -> answer",))
    assert route_changes([found, found]) == {("", "check -> answer"): 2}


def test_a_run_without_a_trace_has_no_other_routes() -> None:
    assert not case_change(outcome("k", route=()), outcome("k"), None).route_changed


def test_intents_and_answers() -> None:
    found = case_change(outcome("k", intent=None), outcome("k", answer="No."), None)
    assert (found.intents, found.answer_changed) == ((None, "prognosis"), True)
    assert intent_changes([found]) == {("(none)", "prognosis"): 1}
