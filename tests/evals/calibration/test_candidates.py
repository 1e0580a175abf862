"""All rules counted at once are what each rule selects by itself."""

from __future__ import annotations

import numpy as np
import pytest

from evals.calibration.candidates import count_rules
from nodes.evidence.rule import judge
from ranking.measures import average_precision_of_scores
from tests.evals.calibration.worlds import world


@pytest.mark.parametrize(("voted", "ranked"), [(True, True), (False, True), (True, False)])
def test_counts_are_those_of_the_rule_in_a_run(voted: bool, ranked: bool) -> None:
    cases = world(1, 9, voted=voted, ranked=ranked)
    table = count_rules(cases, log_odds=True)
    for row, case in enumerate(cases):
        assert table.gold[row] == case.essential.sum()
        for column, rule in enumerate(table.rules):
            judged = judge(rule, case.model, case.ranker)
            hits = case.essential[judged.chosen].sum()
            found = (table.predicted[row, column], table.correct[row, column])
            assert found == (len(judged.chosen), hits), (case.case_id, str(rule))


def test_average_precision_is_that_of_the_sums() -> None:
    cases = world(2, 6, voted=True)
    table = count_rules(cases, log_odds=True)
    for row, case in enumerate(cases):
        for column in range(0, len(table.rules), 7):
            sums = judge(table.rules[column], case.model, case.ranker).sums
            expected = average_precision_of_scores(sums, case.essential.tolist())
            assert table.precision[row, column] == pytest.approx(expected or np.nan, nan_ok=True)


def test_scores_that_are_no_log_odds_are_never_cut_as_such() -> None:
    table = count_rules(world(3, 4, voted=True), log_odds=False)
    assert {rule.ranker_weight for rule in table.rules if rule.scale == "none"} == {0.0}


def test_families_tell_sources_and_stand_side_by_side() -> None:
    table = count_rules(world(4, 4, voted=True), log_odds=True)
    assert {source for source, _ in table.families} == {"votes", "ranker", "both"}
    ends = [0, *(family.columns.stop for _, family in table.families)]
    assert [family.columns.start for _, family in table.families] == ends[:-1]
    assert ends[-1] == len(table.rules)
