"""Agreement of votes, what reflection changed, and intents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.records import Intent
from evals.analysis.intents import NONE, evidence_by_intent, intent_scores
from evals.analysis.reflection import reflection_changes
from evals.analysis.report import analyse
from evals.analysis.voted_cases import vote_agreement
from evals.scoring.gold import GoldCase, ScoringError, gold_of_run
from ranking.measures import Counts, scores
from runs.record.folder import RunFolder
from tests.evals.analysis.examples import vote, voted
from tests.evals.scoring.runs import done, make_run
from tests.evigraph import edit_manifest


def test_votes_that_agree_on_everything() -> None:
    found = vote_agreement([voted("1", "303")], 3)
    assert found is not None
    assert (found.alpha, found.unanimous, found.pairwise) == (1.0, 1.0, 1.0)


def test_alpha_by_hand() -> None:
    # Three votes on two sentences: 3 and 1 of 3 essential. Values: 4 essential, 2 not; 6 in all.
    # Observed disagreement: sentence 2 has 2*1*2/(3-1) = 2 of 6. Expected: 2*4*2/(6*5) = 16/30.
    found = vote_agreement([voted("1", "31")], 3)
    assert found is not None
    assert found.alpha == pytest.approx(1 - (2 / 6) / (16 / 30))
    assert found.pairwise == pytest.approx((1 + 1 / 3) / 2)
    assert found.unanimous == 0.5


def test_alpha_says_nothing_where_all_votes_are_alike() -> None:
    found = vote_agreement([voted("1", "000")], 3)
    assert found is not None
    assert found.alpha is None
    assert found.unanimous == 1.0


def test_a_single_vote_agrees_with_nobody() -> None:
    assert vote_agreement([voted("1", "10", usable=1)], 1) is None


def test_sentences_by_count_are_of_cases_with_all_votes() -> None:
    found = vote_agreement([voted("1", "3101"), voted("2", "22", usable=2)], 3)
    assert found is not None
    assert found.by_count == {0: 1, 1: 2, 3: 1}


def test_a_ranker_whose_vote_counts_twice_does_not_agree_with_itself() -> None:
    # One vote of a model against one of a ranker, which counts for two: counts are 2 and 1 of 3.
    ranked = replace(voted("1", "21"), ranked=frozenset("1"), ranker_weight=2)
    found = vote_agreement([ranked], 3)
    assert found is not None
    assert (found.pairwise, found.unanimous) == (0, 0)
    assert found.by_count == {1: 1, 2: 1}


def test_changes_are_counted_over_all_votes_and_judged_by_the_key() -> None:
    votes = (vote("1", "12"), vote("13", "1"), vote("1"))
    case = voted("1", "310", "12", votes=votes)
    changes = reflection_changes([case], [case], threshold=2, votes=3)
    assert changes is not None
    assert (changes.votes, changes.changed_votes) == (3, 2)
    assert (changes.added, changes.added_right) == (1, 1)
    assert (changes.removed, changes.removed_right) == (1, 1)


def test_scores_before_are_those_of_the_first_votes() -> None:
    votes = (vote("3", "1"), vote("3", "1"), vote("1"))
    case = voted("1", "300", "1", votes=votes)
    changes = reflection_changes([case], [case], threshold=2, votes=3)
    assert changes is not None and changes.before is not None and changes.after is not None
    assert changes.before.strict_micro == scores(Counts(0, 1, 1), "perfect")
    assert changes.after.strict_micro == scores(Counts(1, 1, 1), "perfect")


def test_the_vote_of_a_ranker_counts_before_and_after_with_its_weight() -> None:
    case = voted("1", "32", "12", votes=(vote("1"), vote("2", "1")), usable=4, asked=4)
    changes = reflection_changes(
        [case], [replace(case, ranked=frozenset("2"), ranker_weight=2)], threshold=2, votes=4
    )
    assert changes is not None and changes.before is not None and changes.after is not None
    assert changes.before.strict_micro == scores(Counts(1, 1, 2), "perfect")
    assert changes.after.strict_micro == scores(Counts(2, 2, 2), "perfect")


def test_without_a_key_changes_are_only_counted() -> None:
    changes = reflection_changes([voted("1", "11", votes=(vote("1", "2"),))], [], threshold=1, votes=1)
    assert changes is not None
    assert (changes.added, changes.added_right, changes.before) == (1, None, None)


def test_a_run_without_votes_in_its_trace() -> None:
    assert reflection_changes([voted("1", "1")], [], threshold=1, votes=1) is None


GOLD = {
    str(number): GoldCase(str(number), intent=Intent(name))
    for number, name in enumerate(
        ["prognosis_severity", "prognosis_severity", "treatment_plan", "malignancy_concern"]
    )
}
MADE = {
    "0": ("prognosis_severity", None),
    "1": ("treatment_plan", "prognosis_severity"),
    "2": ("treatment_plan", None),
    "3": (None, None),
}


def test_accuracy_and_macro_f1() -> None:
    found = intent_scores(MADE, GOLD)
    assert found is not None
    assert (found.cases, found.accuracy, found.accuracy_with_secondary) == (4, 0.5, 0.75)
    # prognosis: P 1, R 1/2; treatment: P 1/2, R 1; malignancy: never predicted.
    assert found.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_no_known_intent_is_wrong_and_no_class() -> None:
    found = intent_scores(MADE, GOLD)
    assert found is not None
    assert found.confusion["malignancy_concern", NONE] == 1
    assert sum(found.confusion.values()) == 4


def test_cases_that_are_not_in_the_key_do_not_count() -> None:
    assert intent_scores({"9": ("treatment_plan", None)}, GOLD) is None
    assert intent_scores(MADE, {"0": GoldCase("0")}) is None


def test_evidence_goes_by_the_intent_of_the_key_and_else_by_the_predicted() -> None:
    groups = evidence_by_intent([voted("1", "30", "1", intent="treatment_plan"), voted("2", "03", "1")])
    assert [(group.name, group.strict_micro.f1) for group in groups] == [(NONE, 0.0), ("treatment_plan", 1.0)]


def run_of_votes(folder: Path, case_ids: str, votes: int = 5, *, labelled: bool = True) -> RunFolder:
    folder.mkdir()
    line = {
        "vote_counts": {"1": min(3, votes), "2": 0, "3": 1},
        "usable_votes": votes,
        "evidence": {"threshold": ["1", "3"]},
    }
    labels = {"1": "essential", "2": "not-relevant", "3": "not-relevant"} if labelled else None
    made = make_run(folder, case_ids, [done(id_, **line) for id_ in case_ids], labels=labels)
    edit_manifest(
        made.path, recipe={"system": "tamu", "evidence": {"votes": votes, "threshold": min(3, votes)}}
    )
    return RunFolder(made.path)


@pytest.mark.parametrize(
    ("own", "others", "fault"),
    [
        ({}, {"labelled": False}, r"other/run: no case is labelled by a key"),
        ({"labelled": False}, {}, "^this run: no case is labelled by a key"),
        ({}, {"votes": 7}, "has 7 votes a case and this run 5"),
    ],
)
def test_a_run_that_cannot_choose_a_threshold_is_refused(
    tmp_path: Path, own: dict[str, bool], others: dict[str, Any], fault: str
) -> None:
    run, other = run_of_votes(tmp_path / "own", "12", **own), run_of_votes(tmp_path / "other", "34", **others)
    with pytest.raises(ScoringError, match=fault):
        analyse(run, gold_of_run(run), other)


def test_a_run_of_one_vote_without_intents_has_no_figures_of_them(tmp_path: Path) -> None:
    run = run_of_votes(tmp_path / "own", "12", votes=1)
    values = analyse(run, gold_of_run(run)).as_json()
    assert (values["agreement"], values["intents"]) == (None, None)
    assert values["by_threshold"][0]["strict_micro"]["f1"] == pytest.approx(200 / 3)


def test_a_threshold_is_tuned_on_the_other_run_or_on_other_cases(tmp_path: Path) -> None:
    run, other = (run_of_votes(tmp_path / name, ids) for name, ids in (("own", "12"), ("other", "34")))
    tuned = analyse(run, gold_of_run(run), other).tuned
    assert tuned is not None and tuned.tuned_on == str(other.path)
    single = run_of_votes(tmp_path / "single", "5")
    assert analyse(single, gold_of_run(single)).tuned is None
    assert analyse(run, gold_of_run(run)).tuned is not None
