"""Fits of tails, against the library and against published formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import fmin
from scipy.stats import genpareto

from ranking.prefixes import Floats
from ranking.truncation.rules import MAX_WINDOWS, released_fit, surprises, tail_of, windows
from ranking.truncation.tails import _Loss, _step, fit_tail, minimize
from tests.ranking.truncation.lists import K30, LISTS


def _by_the_library(excesses: Floats) -> float:
    shape, _, scale = genpareto.fit(excesses, loc=0)
    return float(min(-shape / scale, -1e-6 / excesses.mean()))


def test_the_released_fit_is_that_of_the_vector() -> None:
    found = released_fit(np.asarray(LISTS["plateau"]))
    assert (found.window, found.below) == (5, 1)
    assert found.theta == pytest.approx(-12.283, abs=1e-3)
    assert found.xi == pytest.approx(0.55111, abs=1e-5)
    assert (found.reference, found.misfit) == pytest.approx((0.06984, 0.08494), abs=1e-5)
    assert found.threshold == pytest.approx(0.31208, abs=1e-5)


def test_the_released_fit_stops_where_the_librarys_optimiser_does() -> None:
    found = released_fit(np.asarray(K30))
    assert (found.window, found.below) == (29, 12)
    assert found.theta == pytest.approx(-23.4799, abs=1e-3)
    assert found.xi == pytest.approx(0.617559, abs=1e-5)
    assert (found.reference, found.misfit) == pytest.approx((0.008888, 0.029306), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_windows_are_cut_as_with_the_library(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(seed)
    scores = np.sort(generator.gumbel(0.4, 0.08, size=5 + 8 * seed).clip(0.01))[::-1]
    ours = released_fit(scores)
    monkeypatch.setattr("ranking.truncation.rules.released_theta", _by_the_library)
    theirs = released_fit(scores)
    assert (ours.window, ours.below) == (theirs.window, theirs.below)


def test_surprises_are_those_of_the_closed_form() -> None:
    excesses = np.asarray([0, 0.1, 0.2, 0.5])
    xi = float(np.log1p(4 * excesses).mean())
    assert xi == pytest.approx(0.505718, abs=1e-6)
    assert surprises(excesses, -4.0, xi) == pytest.approx([0, 0.665336, 1.162282, 2.172382], abs=1e-6)


def test_the_simplex_takes_the_steps_of_the_library() -> None:
    def valley(x: float, y: float, z: float) -> float:
        return 20 * (y - x * x) ** 2 + (1 - x) ** 2 + (z - y) ** 2

    def at_a_point(at: Floats) -> float:
        return valley(*at.tolist())

    theirs = fmin(at_a_point, (-1.0, 0.0, 3.0), disp=False)
    assert minimize(valley, (-1.0, 0.0, 3.0)) == tuple(theirs.tolist())


def test_the_clean_fit_leaves_two_scores_out() -> None:
    ranked = np.asarray(K30)
    excesses = (ranked - ranked[-1])[::-1]
    tail = tail_of(excesses)
    assert tail == pytest.approx((0.2708, 0.02703), abs=3e-4)
    surprises = tail.minus_log_survival(excesses)[::-1]
    assert surprises[:4].tolist() == pytest.approx([5.2098, 4.9287, 4.6243, 2.8999], abs=2e-3)


@pytest.mark.parametrize("shape", [-0.4, 0.0001, 0.8])
def test_a_tail_is_fitted_as_by_the_library(shape: float) -> None:
    excesses = np.sort(genpareto.rvs(shape, scale=0.3, size=200, random_state=5))
    theirs = genpareto.fit(excesses, floc=0)
    assert fit_tail(excesses) == pytest.approx((theirs[0], theirs[2]), abs=2e-3)


def test_long_lists_are_fitted_in_as_many_windows_at_most() -> None:
    assert windows(5, 2) == [5, 4, 3, 2]
    sizes = windows(20_000, 2)
    assert (len(sizes), sizes[0], sizes[-1]) == (MAX_WINDOWS, 20_000, 2)
    assert sizes == sorted(set(sizes), reverse=True)


def test_where_nothing_is_better_all_corners_move_halfway_to_the_best() -> None:
    best = (0.0, 0.0, 0.0, 0.0)
    corners = [best, (1.0, 2.0, 0.0, 0.0), (2.0, 0.0, 4.0, 0.0), (3.0, 0.0, 0.0, 8.0)]
    assert _step(lambda x, y, z: 9.0, corners) == 5
    assert corners == [best, (9.0, 1.0, 0.0, 0.0), (9.0, 0.0, 2.0, 0.0), (9.0, 0.0, 0.0, 4.0)]


def test_without_a_shape_the_loss_is_that_of_the_exponential_tail() -> None:
    excesses = np.array([0.0, 1.0, 3.0])
    assert _Loss(excesses)(0.0, -1.0, 2.0) == pytest.approx(7 / 2 + 3 * np.log(2))
    assert _Loss(excesses)(1e-9, -1.0, 2.0) == pytest.approx(7 / 2 + 3 * np.log(2), abs=1e-6)
