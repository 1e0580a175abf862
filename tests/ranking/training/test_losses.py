from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ranking.examples import Example
from ranking.training.losses import (
    balanced_pos_weight,
    listwise_loss,
    objective_loss,
    pairwise_loss,
    pointwise_loss,
)
from ranking.training.recipe import Objective, ObjectiveSettings

WEIGHT = 307 / 121
SCORES = torch.tensor([2.0, 0.5, -1.0, 0.1], dtype=torch.float64)
LABELS = torch.tensor([True, False, False, True])
OBJECTIVES: list[Objective] = [
    "pointwise",
    "pairwise",
    "listwise",
    "pointwise+pairwise",
    "pointwise+listwise",
]


def approx(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def needed(loss: Tensor | None) -> Tensor:
    assert loss is not None
    return loss


def loss_of(objective: Objective, scores: Tensor, labels: Tensor, pos_weight: float = 1.0) -> Tensor | None:
    settings = ObjectiveSettings(objective=objective, hard_negatives=2, pos_weight=pos_weight)
    return objective_loss(scores, labels, settings)


def test_pointwise_is_the_mean_of_the_sentences() -> None:
    assert pointwise_loss(SCORES, LABELS).item() == approx(2.058663 / 4)
    assert pointwise_loss(SCORES, LABELS, WEIGHT).item() == approx(0.811084)


@pytest.mark.parametrize(("hard_negatives", "loss"), [(1, 0.3), (2, 0.15), (5, 0.15)])
def test_pairwise_is_the_mean_over_the_hardest_pairs(hard_negatives: int, loss: float) -> None:
    assert needed(pairwise_loss(SCORES, LABELS, 0.2, hard_negatives)).item() == approx(loss)


def test_listwise_is_the_cross_entropy_with_equal_shares_of_the_evidence() -> None:
    assert needed(listwise_loss(SCORES, LABELS)).item() == approx(1.302406)


@pytest.mark.parametrize(
    ("objective", "pos_weight", "loss"),
    [
        ("pointwise+pairwise", WEIGHT, 0.216108),
        ("pointwise+listwise", WEIGHT, 1.253274),
        ("pointwise+pairwise", 1, 0.186466),
        ("pointwise+listwise", 1, 1.223632),
    ],
)
def test_hybrids_weigh_their_parts_by_alpha(objective: Objective, pos_weight: float, loss: float) -> None:
    assert needed(loss_of(objective, SCORES, LABELS, pos_weight)).item() == approx(loss)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_equal_finite_differences(objective: Objective) -> None:
    scores = torch.tensor([2.0, 0.5, -1.0, 0.15, 0.4], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1, 0, 0, 1, 0])
    assert torch.autograd.gradcheck(lambda s: needed(loss_of(objective, s, labels, WEIGHT)), (scores,))


@pytest.mark.parametrize(
    ("objective", "labels", "skipped"),
    [
        ("pointwise", [0, 0], False),
        ("pairwise", [0, 0], True),
        ("pairwise", [1, 1], True),
        ("listwise", [0, 0], True),
        ("listwise", [1, 1], False),
    ],
)
def test_cases_that_cannot_be_ranked_are_skipped(
    objective: Objective, labels: list[int], skipped: bool
) -> None:
    loss = loss_of(objective, torch.tensor([0.3, -0.2]), torch.tensor(labels))
    assert (loss is None) == skipped


@pytest.mark.parametrize("objective", ["pointwise+pairwise", "pointwise+listwise"])
def test_hybrids_keep_the_pointwise_part_where_ranking_is_skipped(objective: Objective) -> None:
    scores, labels = torch.tensor([0.3, -0.2]), torch.tensor([0, 0])
    loss = needed(loss_of(objective, scores, labels))
    assert loss.item() == pytest.approx(0.1 * pointwise_loss(scores, labels).item())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_sentences_give_no_loss(objective: Objective) -> None:
    assert loss_of(objective, torch.tensor([]), torch.tensor([])) is None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_half_precision_is_computed_in_single(objective: Objective) -> None:
    loss = needed(loss_of(objective, SCORES.bfloat16(), LABELS))
    assert loss.dtype == torch.float32


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_confident_logits_stay_finite(objective: Objective) -> None:
    loss = needed(loss_of(objective, torch.tensor([-1e4, 1e4]), torch.tensor([1, 0])))
    assert torch.isfinite(loss)


def example(*labels: bool) -> Example:
    return Example("1", "q", ("s",) * len(labels), labels, "d", "g")


def test_balanced_weight_is_negatives_over_positives() -> None:
    assert balanced_pos_weight([example(True, False), example(False, False)]) == 3


@pytest.mark.parametrize("label", [True, False])
def test_one_kind_of_sentence_cannot_be_balanced(label: bool) -> None:
    with pytest.raises(ValueError, match=r"no (positive|negative) sentence among 2"):
        balanced_pos_weight([example(label, label)])
