"""Rules are counted as each selects by itself, and what is reported of a case is never chosen with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evals.calibration.candidates import (
    MOST_SINGLE_PARTS,
    PARTS,
    choose,
    choose_by_others,
    count_rules,
    held_out,
    parts_of,
)
from evals.calibration.labelled_cases import LabelledCase
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


def picks(cases: list[LabelledCase]) -> list[int]:
    table = count_rules(cases, log_odds=True)
    parts = parts_of([case.fingerprint for case in cases])
    found: list[int] = choose_by_others(table, parts, ["votes", "ranker", "both"]).tolist()
    return found


def test_the_rule_of_a_case_does_not_depend_on_its_labels() -> None:
    cases = world(1, 12, voted=True)
    before = picks(cases)
    for row, case in enumerate(cases[:4]):
        changed = [*cases]
        changed[row] = replace(case, essential=~case.essential)
        assert picks(changed)[row] == before[row]


def test_the_labels_of_other_cases_decide() -> None:
    cases = world(1, 12, voted=True)
    turned = [replace(case, essential=~case.essential) for case in cases]
    assert picks(cases) != picks(turned)


def test_leaving_one_out_is_choosing_on_the_others() -> None:
    cases = world(2, 9, voted=True)
    table = count_rules(cases, log_odds=True)
    parts = parts_of([case.fingerprint for case in cases])
    for row in range(3):
        others = np.delete(np.arange(9), row)
        chosen = choose(table, others, parts, ["votes", "ranker", "both"])
        assert chosen.column == picks(cases)[row]


def test_cases_with_equal_texts_are_never_split() -> None:
    names = ["a", "b", "a", "c", "d", "b"]
    parts = parts_of(names)
    assert parts.of_case[0] == parts.of_case[2]
    assert parts.of_case[1] == parts.of_case[5]
    assert parts.size == 4
    aside = set(held_out(names, 0.5).tolist())
    assert all((one in aside) == (other in aside) for one, other in ((0, 2), (1, 5)))
    assert 0 < len(aside) < 6


def test_many_cases_are_left_out_in_parts() -> None:
    assert parts_of([str(number) for number in range(MOST_SINGLE_PARTS)]).size == MOST_SINGLE_PARTS
    assert parts_of([str(number) for number in range(MOST_SINGLE_PARTS + 1)]).size == PARTS


def test_the_order_of_the_cases_does_not_matter() -> None:
    cases = world(3, 10)
    table, names = count_rules(cases, log_odds=True), [case.fingerprint for case in cases]
    turned = count_rules(cases[::-1], log_odds=True)
    one = choose_by_others(table, parts_of(names), ["ranker"])
    other = choose_by_others(turned, parts_of(names[::-1]), ["ranker"])
    assert one.tolist() == other[::-1].tolist()
