from __future__ import annotations

from evals.analysis.reflection import reflection_changes
from ranking.measures import Counts, scores
from tests.evals.analysis.examples import vote, voted


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


def test_without_a_key_changes_are_only_counted() -> None:
    changes = reflection_changes([voted("1", "11", votes=(vote("1", "2"),))], [], threshold=1, votes=1)
    assert changes is not None
    assert (changes.added, changes.added_right, changes.before) == (1, None, None)


def test_a_run_without_votes_in_its_trace() -> None:
    assert reflection_changes([voted("1", "1")], [], threshold=1, votes=1) is None
