"""Rules in one word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ranking.cutoffs import (
    AdaptiveSoftK,
    Autocut,
    AutocutStar,
    Cutoff,
    Deviations,
    Elbow,
    FixedThreshold,
    ScoreGap,
    Share,
    Surprise,
    SurpriseClean,
    TopK,
    cutoff_text,
    parse_cutoff,
    select,
)
from ranking.prefixes import probabilities

SCORES = [1.8, 1.5, 0.2, -0.4, -0.5, -2]
CUTOFF: TypeAdapter[Cutoff] = TypeAdapter(Cutoff)

# Multiples of 1/64 survive shifts by whole numbers without rounding.
scores_lists = st.lists(st.integers(-640, 640).map(lambda value: value / 64), max_size=12)
rules = st.one_of(
    st.builds(FixedThreshold, tau=st.floats(0, 1)),
    st.builds(ScoreGap, max_k=st.none() | st.integers(1, 12)),
    st.builds(AdaptiveSoftK, tau0=st.floats(0, 1), entropy_weight=st.floats(-2, 2)),
    st.builds(TopK, k=st.integers(1, 12)),
    st.builds(Share, share=st.floats(0.001, 1)),
    st.builds(Deviations, above=st.floats(-3, 3)),
    st.builds(Autocut, jumps=st.integers(1, 3), minimum=st.integers(1, 4)),
    st.builds(AutocutStar, minimum=st.integers(1, 4)),
    st.builds(Elbow, minimum=st.integers(1, 4)),
    st.builds(Surprise, minimum=st.integers(1, 4)),
    st.builds(SurpriseClean, alpha=st.floats(0.001, 0.999), minimum=st.integers(1, 4)),
)


def test_probabilities_are_sigmoids() -> None:
    expected = [0.858149, 0.817574, 0.549834, 0.401312, 0.377541, 0.119203]
    assert probabilities(np.asarray(SCORES)).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.25, 2), (0.24, 1), (0.35, 2), (0.5, 3), (1, 6)])
def test_a_share_is_rounded_and_never_empty(share: float, count: int) -> None:
    assert select(Share(share=share), SCORES) == list(range(count))


@pytest.mark.parametrize(("above", "chosen"), [(0.0, [0, 1, 2]), (1.0, [0, 1]), (9.0, [0]), (-9.0, range(6))])
def test_deviations_count_from_the_mean_of_the_document(above: float, chosen: list[int]) -> None:
    assert select(Deviations(above=above), SCORES) == list(chosen)
    assert select(Deviations(above=above), [3 * score - 40 for score in SCORES]) == list(chosen)


def test_equal_scores_deviate_from_nothing() -> None:
    assert select(Deviations(above=0.0), [2.0, 2.0]) == [0, 1]
    assert select(Deviations(above=0.1), [2.0, 2.0]) == [0]


def test_threshold_is_inclusive() -> None:
    assert select(FixedThreshold(tau=0.5), [1.0, 0.0, -0.1]) == [0, 1]


def test_best_sentence_is_taken_where_none_reaches_the_threshold() -> None:
    assert select(FixedThreshold(tau=0.9), SCORES) == [0]
    assert select(FixedThreshold(tau=0.9, fallback=False), SCORES) == []


def test_gap_without_limit_falls_for_a_far_off_last_sentence() -> None:
    assert select(ScoreGap(), SCORES) == [0, 1, 2, 3, 4]


def test_limited_gap_is_the_widest_within_the_limit() -> None:
    assert select(ScoreGap(max_k=4), SCORES) == [0, 1]
    assert select(ScoreGap(max_k=1), SCORES) == [0]


def test_first_of_equal_gaps_counts_in_spite_of_rounding() -> None:
    assert select(ScoreGap(), [0.9, 0.8, 0.7, 0.6, 0.5]) == [0]


@pytest.mark.parametrize(
    ("tau0", "weight", "scores", "size"),
    [
        (0.5, 0.3, SCORES, 2),
        (0.9, 0.3, SCORES, 6),
        (0.5, 0.3, [0, 0, 0, 0], 4),
        (0.5, 0.3, [10, 0, 0, 0], 1),
        (0.3, -0.5, [0, 0, 0, 0], 1),
        (0.5, 0.3, [3], 1),
        (1, 2, [800, 0, -800], 1),
        (1, 2, [0, 0, -800], 2),
    ],
)
def test_adaptive_size_grows_with_entropy(tau0: float, weight: float, scores: list[float], size: int) -> None:
    chosen = select(AdaptiveSoftK(tau0=tau0, entropy_weight=weight), scores)
    assert chosen == list(range(size))


def test_adaptive_threshold_is_that_of_the_vector() -> None:
    """Two sentences have a mass of 0.799954; H turns the weight into just less or just more."""
    entropy = 0.717269
    above = (0.799954 - 0.5) / entropy
    assert select(AdaptiveSoftK(tau0=0.5, entropy_weight=above - 1e-4), SCORES) == [0, 1]
    assert select(AdaptiveSoftK(tau0=0.5, entropy_weight=above + 1e-4), SCORES) == [0, 1, 2]


@pytest.mark.parametrize("rule", [Autocut, AutocutStar, Elbow, Surprise])
def test_a_truncation_takes_its_minimum(rule: type[Autocut | AutocutStar | Elbow | Surprise]) -> None:
    scores = [0.9, 0.2, 0.1, 0.05, 0.01]
    assert len(select(rule(), scores)) < 4
    assert select(rule(minimum=4), scores) == [0, 1, 2, 3]
    assert select(rule(minimum=9), scores) == [0, 1, 2, 3, 4]


@given(rules)
def test_nothing_is_selected_of_nothing(rule: Cutoff) -> None:
    assert select(rule, []) == []


@given(rules, st.sampled_from([math.nan, math.inf, -math.inf]))
def test_scores_that_are_no_numbers_are_refused(rule: Cutoff, score: float) -> None:
    with pytest.raises(ValueError, match=r"the score of sentence 1 is .*: scores have to be finite"):
        select(rule, [0.5, score])


def test_scores_of_several_documents_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        select(TopK(), np.zeros((1, 2)))


@given(rules, scores_lists.filter(bool))
def test_selection_is_a_prefix_of_the_ranking_and_never_empty(rule: Cutoff, scores: list[float]) -> None:
    chosen = select(rule, scores)
    ranking = sorted(range(len(scores)), key=lambda position: (-scores[position], position))
    assert chosen
    assert chosen == sorted(ranking[: len(chosen)])


@given(st.one_of(st.builds(ScoreGap), st.builds(AdaptiveSoftK)), scores_lists, st.integers(-8, 8))
def test_gap_and_adaptive_do_not_see_a_shift(rule: Cutoff, scores: list[float], shift: int) -> None:
    assert select(rule, [score + shift for score in scores]) == select(rule, scores)


@pytest.mark.parametrize("fields", [{"rule": "best"}, {"rule": "top_k", "k": 0}, {"rule": "gap", "k": 2}])
def test_unknown_rules_and_fields_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CUTOFF.validate_python(fields)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("threshold=0.3", FixedThreshold(tau=0.3)),
        ("threshold=0.3,empty", FixedThreshold(tau=0.3, fallback=False)),
        ("gap", ScoreGap()),
        ("gap=5", ScoreGap(max_k=5)),
        ("adaptive=0.6,-0.1", AdaptiveSoftK(tau0=0.6, entropy_weight=-0.1)),
        ("top_k=2", TopK(k=2)),
        ("autocut", Autocut()),
        ("autocut=2,min:3", Autocut(jumps=2, minimum=3)),
        ("autocut_star", AutocutStar()),
        ("elbow=min:4", Elbow(minimum=4)),
        ("surprise", Surprise()),
        ("surprise_clean=0.1", SurpriseClean(alpha=0.1)),
    ],
)
def test_a_rule_is_read_and_written(text: str, rule: Cutoff) -> None:
    assert parse_cutoff(text) == rule
    assert cutoff_text(rule) == text


@pytest.mark.parametrize(("text", "rule"), [("threshold", FixedThreshold()), ("adaptive", AdaptiveSoftK())])
def test_parameters_have_defaults(text: str, rule: Cutoff) -> None:
    assert parse_cutoff(text) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("treshold=0.4", "choose from threshold="),
        ("threshold=1.4", "tau: Input should be less than or equal to 1"),
        ("top_k=x", "k: Input should be a valid integer"),
        ("top_k=1,2", "at most k"),
        ("elbow=3", "at most no number"),
        ("elbow=min:0", "minimum: Input should be greater than or equal to 1"),
        ("gap=min:2", "max_k: Input should be a valid integer"),
        ("surprise_clean=0", "alpha: Input should be greater than 0"),
        ("", "unknown cut-off"),
    ],
)
def test_a_wrong_rule_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_cutoff(text)
