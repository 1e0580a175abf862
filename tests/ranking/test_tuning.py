from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.cutoffs import AdaptiveSoftK, Cutoff, FixedThreshold, ScoreGap, TopK, select
from ranking.measures import Counts, count, micro
from ranking.tuning import RuleKind, ScoredCase, best_cutoff, count_cutoffs, tune

KINDS: list[RuleKind] = ["top_k", "threshold", "gap", "adaptive"]
GRIDS: dict[RuleKind, list[Cutoff]] = {
    "top_k": [TopK(k=k) for k in range(1, 11)],
    "threshold": [FixedThreshold(tau=step / 20) for step in range(19, 0, -1)],
    "gap": [*(ScoreGap(max_k=k) for k in range(1, 11)), ScoreGap()],
    "adaptive": [
        AdaptiveSoftK(tau0=tau0 / 20, entropy_weight=weight / 20)
        for tau0 in range(6, 19)
        for weight in range(-10, 13)
    ],
}

sentences = st.tuples(st.integers(-300, 300).map(lambda score: score / 100), st.booleans())
cases_lists = st.lists(
    st.lists(sentences, max_size=8).map(lambda all_: ScoredCase([s for s, _ in all_], [y for _, y in all_])),
    min_size=2,
    max_size=5,
)


def counted(rule: Cutoff, case: ScoredCase) -> Counts:
    return count({*select(rule, case.scores)}, {*np.flatnonzero(case.labels).tolist()})


def plainly(rule: Cutoff, cases: list[ScoredCase]) -> tuple[float, int]:
    """Micro-F1 and number of selected sentences, one rule and one case at a time."""
    counts = [counted(rule, case) for case in cases]
    return micro(counts, "perfect").f1, sum(one.predicted for one in counts)


def by_others(kind: RuleKind, cases: list[ScoredCase], *, smoothed: bool = False) -> list[Cutoff]:
    """Of each case the rule that all others choose."""
    rules, counted = count_cutoffs([kind], cases, smoothed=smoothed)
    return [rules[column] for column in counted.best_by_others(counted.families[0]).tolist()]


def chosen_plainly(kind: RuleKind, cases: list[ScoredCase]) -> Cutoff:
    results = [plainly(rule, cases) for rule in GRIDS[kind]]
    best = min(range(len(results)), key=lambda one: (-round(results[one][0], 10), results[one][1]))
    return GRIDS[kind][best]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(cases=cases_lists)
def test_tuning_finds_what_trying_every_rule_finds(kind: RuleKind, cases: list[ScoredCase]) -> None:
    tuned = tune(kind, cases)
    assert tuned.cutoff == chosen_plainly(kind, cases)
    assert tuned.f1 == pytest.approx(plainly(tuned.cutoff, cases)[0])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(cases=cases_lists)
def test_a_held_out_case_is_cut_by_the_others(kind: RuleKind, cases: list[ScoredCase]) -> None:
    found = by_others(kind, cases)
    for number, cutoff in enumerate(found):
        assert cutoff == chosen_plainly(kind, [case for other, case in enumerate(cases) if other != number])
    pairs = zip(found, cases, strict=True)
    counts = [counted(cutoff, case) for cutoff, case in pairs]
    assert best_cutoff(cases, [kind]).held_out_f1 == pytest.approx(micro(counts, "perfect").f1)


def test_of_equal_rules_the_one_that_would_choose_least_wins() -> None:
    cases = [ScoredCase([2.0, -2.0], [True, False])]
    assert tune("threshold", cases).cutoff == FixedThreshold(tau=0.95)
    assert tune("threshold", cases, fallback=False).cutoff == FixedThreshold(tau=0.85, fallback=False)
    assert tune("top_k", [ScoredCase([2.0], [True])]).cutoff == TopK(k=1)


def test_thresholds_can_leave_a_case_empty() -> None:
    cases = [ScoredCase([-1.0], [False]), ScoredCase([2.0], [True])]
    assert tune("threshold", cases).f1 == pytest.approx(2 / 3)
    tuned = tune("threshold", cases, fallback=False)
    assert tuned.f1 == 1
    assert tuned.cutoff == FixedThreshold(tau=0.85, fallback=False)


def test_smoothing_prefers_a_broad_hill_to_a_lone_peak() -> None:
    """At 0.9 ten of ten are right, at 0.85 eight wrong ones join, from 0.8 on no evidence is missing."""
    case = ScoredCase([2.4] * 10 + [1.9] * 8 + [1.5] * 5, [True] * 10 + [False] * 8 + [True] * 5)
    peak, hill = tune("threshold", [case]), tune("threshold", [case], smoothed=True)
    assert (peak.cutoff, hill.cutoff) == (FixedThreshold(tau=0.9), FixedThreshold(tau=0.75))
    assert [peak.f1, hill.f1] == pytest.approx([0.8, 30 / 38])


@pytest.mark.parametrize("kind", ["top_k", "gap"])
@settings(max_examples=10, deadline=None)
@given(cases=cases_lists)
def test_sizes_are_not_smoothed(kind: RuleKind, cases: list[ScoredCase]) -> None:
    assert tune(kind, cases, smoothed=True) == tune(kind, cases)
    assert by_others(kind, cases, smoothed=True) == by_others(kind, cases)


def test_smoothing_looks_along_both_axes_of_the_adaptive_grid() -> None:
    generator = np.random.default_rng(1)
    cases = [ScoredCase(generator.normal(size=9), (generator.random(9) < 0.3).tolist()) for _ in range(4)]
    f1 = np.asarray([plainly(rule, cases)[0] for rule in GRIDS["adaptive"]]).reshape(13, 23)
    means = [
        f1[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2].mean()
        for row in range(13)
        for column in range(23)
    ]
    tuned = tune("adaptive", cases, smoothed=True)
    assert means[GRIDS["adaptive"].index(tuned.cutoff)] == pytest.approx(max(means))


def test_kinds_are_compared_on_cases_that_they_were_not_tuned_on() -> None:
    generator = np.random.default_rng(3)
    cases = [ScoredCase(generator.normal(size=8), (generator.random(8) < 0.3).tolist()) for _ in range(12)]
    estimates = {kind: best_cutoff(cases, [kind]).held_out_f1 or 0.0 for kind in KINDS}
    best = best_cutoff(cases)
    assert best.held_out_f1 == max(estimates.values())
    assert best.cutoff.rule == max(KINDS, key=lambda kind: estimates[kind])


def test_the_simplest_of_equal_kinds_wins() -> None:
    cases = [ScoredCase([4.0, -4.0], [True, False])] * 3
    assert best_cutoff(cases, ("adaptive", "gap", "top_k")) == (TopK(k=1), 1, 1)


def test_documents_without_sentences_count_for_nothing() -> None:
    case = ScoredCase([2.0, -2.0], [True, False])
    assert tune("gap", [case, ScoredCase([], [])]) == tune("gap", [case])


def test_tuning_needs_cases() -> None:
    with pytest.raises(ValueError, match="no cases"):
        tune("top_k", [])
    with pytest.raises(ValueError, match="at least two"):
        best_cutoff([ScoredCase([1.0], [True])])


def test_a_case_needs_a_label_for_each_finite_score() -> None:
    with pytest.raises(ValueError, match="2 labels for 1 scores"):
        ScoredCase([1.0], [True, False])
    with pytest.raises(ValueError, match="finite"):
        ScoredCase([float("nan")], [True])
