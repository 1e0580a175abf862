from __future__ import annotations

import pytest

from evals.scoring.texts import METRICS, OVERALL, average


def test_the_overall_score_of_subtask_1_as_a_team_published_it() -> None:
    scored = {"alignscore": [0.282], "rougeLsum": [0.406], "medcon": [0.197], "bertscore": [0.198]}
    assert average("2026-1", scored, {}, 1).overall == pytest.approx(27.1, abs=0.05)


def test_the_overall_score_of_subtask_3_as_a_team_published_it() -> None:
    scored = {
        "bleu": [0.0942],
        "rougeLsum": [0.2704],
        "sari": [55.42],
        "bertscore": [0.43],
        "alignscore": [0.2528],
        "medcon": [0.3704],
    }
    assert average("2026-3", scored, {}, 1).overall == pytest.approx(32.87, abs=0.005)


def test_a_missing_part_leaves_no_overall_score() -> None:
    found = average("2026-3", {"bleu": [0.1, 0.3], "sari": [50, 60]}, {"medcon": "needs an index"}, 2)
    assert found.overall is None
    assert found.available == pytest.approx((20 + 55) / 2)
    assert found.not_computed == {"medcon": "needs an index"}


def test_sari_alone_is_out_of_100_as_it_comes() -> None:
    found = average("2026-3", {"bleu": [0.5], "sari": [50]}, {}, 1)
    assert found.means == {"bleu": 50, "sari": 50}
    assert found.by_case == [{"bleu": 50, "sari": 50}]


def test_parts_of_an_overall_score_are_metrics_of_the_task() -> None:
    for task, parts in OVERALL.items():
        assert set(parts) <= set(METRICS[task])
