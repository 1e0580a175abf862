from __future__ import annotations

from evals.studies.figures import stacked_scores
from tests.evals.studies.invented import CASES, logits, scored

RIGHT = ("110", "001", "100")
WRONG = ("001", "110", "011")


def test_a_stack_has_the_seeds_of_its_first_row_and_the_sets_of_both() -> None:
    trained = {1: scored(RIGHT), 2: scored(RIGHT, noisy=RIGHT)}
    stacked = stacked_scores(CASES["tuning"], trained, {0: scored(WRONG)})
    assert {seed: set(sets) for seed, sets in stacked.items()} == {
        1: {"tuning", "held-out", "domain-own"},
        2: {"tuning", "held-out", "domain-own"},
    }


def test_a_row_that_is_right_on_the_tuning_part_outweighs_one_that_is_wrong_there() -> None:
    wrong_there = {**scored(WRONG), "tuning": {"t1": logits("011"), "t2": logits("101")}}
    (stacked,) = stacked_scores(CASES["tuning"], {1: scored(RIGHT)}, {0: wrong_there}).values()
    for case_id, labels in (("a", (True, True, False)), ("b", (False, False, True))):
        assert tuple(stacked["held-out"][case_id] > 0) == labels


def test_a_row_that_is_not_finished_makes_no_stack() -> None:
    assert stacked_scores(CASES["tuning"], {1: scored(RIGHT)}, {}) == {}
    assert stacked_scores(CASES["tuning"], {1: {"held-out": {}}}, {0: scored(RIGHT)}) == {}
