"""Agreement of reviewers equals scikit-learn's, statsmodels' and krippendorff's."""

from __future__ import annotations

import random

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from evals.agreement import reviewer_agreement
from evals.statistics.agreement import CohenKappa, FleissKappa, KrippendorffAlpha
from runs.review.reviewers import Standing
from runs.review.reviews import Review

LABELS = ("essential", "supplementary", "not-relevant")


def standing(labels: dict[str, list[int]], *, blind: bool = True) -> Standing:
    """A case whose reviewers gave these labels, by name."""
    history = [
        Review(
            case_id="q",
            reviewer=name,
            reviewed_at="2026-01-02T03:04:05+00:00",
            labels={str(at): LABELS[label] for at, label in enumerate(given)},
            shown="0" * 64,
            blind=blind,
        )
        for name, given in labels.items()
    ]
    return Standing((), history)


@pytest.mark.parametrize("seed", range(20))
def test_coefficients_are_those_of_the_libraries(seed: int) -> None:
    chance = random.Random(seed)
    pairs = [[chance.choice([0, 0, 1, 2]) for _ in range(2)] for _ in range(30)]
    cohen, alpha = CohenKappa(3), KrippendorffAlpha(3)
    assert cohen.of(cohen.row(pairs), 1) == pytest.approx(
        cohen_kappa_score(*zip(*pairs, strict=True)), abs=1e-9
    )
    items = [[chance.choice([0, 0, 1, 2]) for _ in range(chance.choice([1, 2, 3]))] for _ in range(30)]
    data = [[item[rater] if rater < len(item) else np.nan for item in items] for rater in range(3)]
    expected = krippendorff.alpha(reliability_data=data, level_of_measurement="nominal")
    assert alpha.of(alpha.row(items), 1) == pytest.approx(expected, abs=1e-9)


def test_fleiss_kappa_is_that_of_statsmodels() -> None:
    items = [
        *([0, 0, 0], [0, 1, 0], [1, 1, 2], [2, 2, 2], [0, 0, 2]),
        *([1, 1, 1], [2, 0, 2], [0, 0, 0], [2, 2, 1], [1, 0, 2]),
    ]
    kappa = FleissKappa(3, 3)
    # fleiss_kappa(aggregate_raters(items)[0]) of statsmodels 0.14
    assert kappa.of(kappa.row(items), 1) == pytest.approx(0.3412162162162161, abs=1e-9)


def test_a_run_reviewed_by_two() -> None:
    chance = random.Random(1)
    given = [[[chance.choice([0, 1, 2]) for _ in range(5)] for _ in range(2)] for _ in range(12)]
    for one, other in given:
        other[4] = one[4]
    found = reviewer_agreement(
        {f"q{at}": standing({"anna": one, "ben": other}) for at, (one, other) in enumerate(given)}
    )
    cohen = next(one for one in found.measures if one.name == "cohen" and one.scale == "essential")
    sides = [[label == 0 for case in given for label in case[side]] for side in (0, 1)]
    assert cohen.value is not None
    assert cohen.value.value == pytest.approx(cohen_kappa_score(*sides), abs=1e-9)
    assert cohen.value.low < cohen.value.value < cohen.value.high
    assert (cohen.cases, cohen.sentences, cohen.equal) == (12, 60, sum(map(int.__eq__, *sides)))
    assert (found.caution, found.left_out) == ("", 0)
    made = found.as_json()
    assert {name: made[name] for name in ("cases", "reviews", "blind", "left_out")} == {
        "cases": 12,
        "reviews": 24,
        "blind": 24,
        "left_out": 0,
    }
    (of_pair,) = [one for one in made["measures"] if (one["name"], one["scale"]) == ("cohen", "essential")]
    assert (of_pair["reviewers"], of_pair["equal"]) == (["anna", "ben"], cohen.equal)
    assert (of_pair["value"], of_pair["interval"]) == (cohen.value.value, [cohen.value.low, cohen.value.high])
    row = found.table.rows[found.measures.index(cohen)]
    equal, value = f"{100 * cohen.equal / 60:.1f} %", f"{cohen.value.value:.3f}"
    assert (row[0], row[2], row[3], row[4], str(row[5])[:5]) == (
        "Cohen's kappa",
        "anna, ben",
        "60",
        equal,
        value,
    )


def test_other_numbers_of_reviewers_and_labels_that_are_all_alike() -> None:
    found = reviewer_agreement(
        {
            "two": standing({"anna": [0, 0], "ben": [0, 0]}),
            "three": standing({"anna": [0], "ben": [0], "cleo": [0]}),
            "one": standing({"anna": [1, 2]}, blind=False),
        }
    )
    assert found.caution == ""
    assert (found.cases, found.left_out) == (2, 1)
    assert {one.value for one in found.measures} == {None}
    counts = {one.name: (one.cases, one.sentences) for one in found.measures}
    assert (counts["fleiss"], counts["alpha"]) == ((1, 2), (2, 3))


def test_reviewers_who_share_no_case_have_no_kappa() -> None:
    found = reviewer_agreement(
        {"first": standing({"anna": [0], "ben": [1]}), "second": standing({"ben": [2], "cleo": [0]})}
    )
    assert {one.reviewers for one in found.measures if one.name == "cohen"} == {
        ("anna", "ben"),
        ("ben", "cleo"),
    }


def test_reviews_that_were_not_blind_are_counted_in_a_caution() -> None:
    seen, unseen = (standing({"anna": [0], "ben": [1]}, blind=blind) for blind in (False, True))
    caution = reviewer_agreement({"seen": seen, "blind": unseen}).caution
    assert caution.startswith("2 of 4 reviews were not blind")
