"""One ranking under many rules, from known scores."""

from __future__ import annotations

import pytest

from evals.rankings.by_cutoff import RULES, cutoff_table, cutoffs_as_json, score_by_cutoff
from evals.rankings.scores import RankingScores
from ranking.cutoffs import cutoff_text, parse_cutoff
from ranking.rank_file import RankedRow


def row(id_: str) -> RankedRow:
    """Two of five sentences stand out, and are evidence; the row itself selects another."""
    scores = {"a": 0.9, "b": 0.8, "c": 0.2, "d": 0.1, "e": 0.05}
    return RankedRow(id_, ("e",), scores, (), False, ("a", "b"), False)


@pytest.fixture(scope="module")
def scored() -> dict[str, RankingScores]:
    return {cutoff_text(rule): scores for rule, scores in score_by_cutoff([row("1"), row("2")])}


def test_every_rule_cuts_the_same_rankings(scored: dict[str, RankingScores]) -> None:
    assert scored["autocut"].selected == 4
    assert scored["autocut"].values["micro_f1"].value == 100
    assert scored["top_k=54"].selected == 10
    assert scored["top_k=54"].values["micro_precision"].value == pytest.approx(40)
    assert scored["autocut=min:3"].values["micro_precision"].value == pytest.approx(200 / 3)


def test_every_rule_can_be_given_as_a_cut_off(scored: dict[str, RankingScores]) -> None:
    assert len(scored) == 15
    assert tuple(map(parse_cutoff, scored)) == RULES


def test_the_table_and_the_object_have_a_row_a_rule() -> None:
    scored = score_by_cutoff([row("1"), row("2")])
    table = cutoff_table(scored)
    names = [cells[0].text for cells in table.cells]
    assert names[0] == "top_k=3" and names[-1] == "surprise_clean, min 3"
    assert len(names) == len({*names}) == len(cutoffs_as_json(scored)) == 15
    assert cutoffs_as_json(scored)[5]["scores"]["micro_f1"] == {"value": 100.0, "interval": [100.0, 100.0]}


def test_an_example_without_sentences_selects_nothing() -> None:
    empty = RankedRow("3", (), {}, (), False, (), False)
    assert dict(score_by_cutoff([row("1"), empty]))[RULES[0]].selected == 3
