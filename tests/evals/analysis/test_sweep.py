from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.analysis.sweep import chosen_at, leave_one_out, settings, sweep, tune, tuned_elsewhere
from evals.analysis.voted_cases import VotedCase
from ranking.measures import Counts, scores
from tests.evals.analysis.examples import voted

# The votes of the specification: [[1,0,1],[1,1,0],[0,0,1],[1,1,1]] by sentence.
COUNTED = voted("1", "2213")


@pytest.mark.parametrize(("threshold", "expected"), [(1, "1234"), (2, "124"), (3, "4")])
def test_a_threshold_chooses_sentences_with_enough_votes(threshold: int, expected: str) -> None:
    assert chosen_at(COUNTED, threshold, 3) == frozenset(expected)


def test_a_missing_vote_is_not_one_against() -> None:
    # Two of two usable votes at T = 3 of 3.
    assert chosen_at(voted("1", "20", usable=2), 3, 3) == {"1"}


def test_votes_that_nobody_asked_for_are_not_missing() -> None:
    assert chosen_at(voted("1", "20", usable=2, asked=2), 3, 3) == frozenset()


def test_the_sweep_is_one_entry_a_threshold() -> None:
    cases = [voted("1", "310", "12"), voted("2", "021", "3")]
    one, two, three = sweep(cases, 3)
    assert [entry.name for entry in (one, two, three)] == ["T = 1", "T = 2", "T = 3"]
    assert one.strict_micro == scores(Counts(3, 4, 3), "perfect")
    assert two.strict_micro == scores(Counts(1, 2, 3), "perfect")
    assert three.strict_micro == scores(Counts(1, 1, 3), "perfect")
    assert [entry.sentences for entry in (one, two, three)] == [4, 2, 1]


def test_supplementary_sentences_neither_help_nor_harm_leniently() -> None:
    (first, *_) = sweep([voted("1", "33", "1", supplementary="2")], 3)
    assert first.strict_micro.precision == 0.5
    assert first.lenient_micro.precision == 1.0


def test_settings_are_those_of_the_run() -> None:
    threshold, high_recall = settings([voted("1", "310", "12")])
    assert (threshold.name, threshold.sentences) == ("threshold", 1)
    assert (high_recall.name, high_recall.sentences) == ("high_recall", 2)


def test_tuning_takes_the_best_threshold() -> None:
    assert tune([voted("1", "321", "12"), voted("2", "211", "1")], 3) == 2


def test_among_equal_thresholds_the_largest_is_taken() -> None:
    assert tune([voted("1", "300", "1")], 3) == 3


def test_a_threshold_of_other_cases_is_only_applied() -> None:
    tuned = tuned_elsewhere([voted("1", "310", "12")], 3, 3, "dev")
    assert tuned.strict_micro == scores(Counts(1, 1, 2), "perfect")
    assert (tuned.thresholds, tuned.tuned_on) == ({3: 1}, "dev")


cases = st.lists(
    st.tuples(st.text("0123", min_size=1, max_size=6), st.sets(st.sampled_from("123456"))),
    min_size=2,
    max_size=6,
)


def made(drawn: list[tuple[str, set[str]]]) -> list[VotedCase]:
    known = ["".join(sorted(ids & {str(1 + n) for n in range(len(counts))})) for counts, ids in drawn]
    return [
        voted(str(number), counts, ids)
        for number, ((counts, _), ids) in enumerate(zip(drawn, known, strict=True))
    ]


@given(cases)
def test_leaving_one_out_tunes_each_case_on_the_others(drawn: list[tuple[str, set[str]]]) -> None:
    every = made(drawn)
    picks = [tune([case for case in every if case is not one], 3) for one in every]
    tuned = leave_one_out(every, 3)
    assert tuned.thresholds == {threshold: picks.count(threshold) for threshold in sorted(set(picks))}
    counts = [
        (
            len(chosen_at(case, pick, 3) & case.gold.essential),
            len(chosen_at(case, pick, 3)),
            len(case.gold.essential),
        )
        for case, pick in zip(every, picks, strict=True)
        if case.gold
    ]
    pooled = Counts(*(sum(part) for part in zip(*counts, strict=True)))
    assert tuned.strict_micro == scores(pooled, "perfect")
