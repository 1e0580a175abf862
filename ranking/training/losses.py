"""Losses over the sentences of one case (TAMU 2026, equations 5 to 12).

A case's logits and labels have shape (sentences,). Reductions are means, over sentences or over pairs, so
that `alpha` means the same for short and long documents.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from ranking.examples import Example
from ranking.training.recipe import ObjectiveSettings


def objective_loss(scores: Tensor, labels: Tensor, settings: ObjectiveSettings) -> Tensor | None:
    """The loss of one case; scores are logits of shape (sentences,), labels 1 or true for evidence.

    A hybrid whose ranking part cannot be computed keeps `alpha` times its pointwise part: the pointwise part
    weighs the same in every case, and a case without evidence still pushes its sentences down.

    Returns:
        A scalar, at least float32; None where there is nothing to learn: no sentences; of `pairwise`, no
        positive or no negative one; of `listwise`, no positive one.
    """
    if not scores.numel():
        return None
    match settings.objective:
        case "pointwise":
            return pointwise_loss(scores, labels, settings.pos_weight)
        case "pairwise" | "listwise":
            return _ranking_loss(scores, labels, settings)
        case _:
            point = settings.alpha * pointwise_loss(scores, labels, settings.pos_weight)
            ranking = _ranking_loss(scores, labels, settings)
            return point if ranking is None else point + (1 - settings.alpha) * ranking


def _ranking_loss(scores: Tensor, labels: Tensor, settings: ObjectiveSettings) -> Tensor | None:
    if settings.objective.endswith("pairwise"):
        return pairwise_loss(scores, labels, settings.margin, settings.hard_negatives)
    return listwise_loss(scores, labels)


def pointwise_loss(scores: Tensor, labels: Tensor, pos_weight: float = 1.0) -> Tensor:
    """Binary cross-entropy, positive sentences weighted, mean over sentences."""
    scores = _precise(scores)
    weight = scores.new_tensor(pos_weight)
    return functional.binary_cross_entropy_with_logits(scores, labels.to(scores), pos_weight=weight)


def pairwise_loss(scores: Tensor, labels: Tensor, margin: float, hard_negatives: int) -> Tensor | None:
    """Hinge of each positive sentence against the highest negative ones by current score, mean over pairs.

    None without a positive or without a negative sentence.
    """
    scores = _precise(scores)
    positive = labels.to(torch.bool)
    if positive.all() or not positive.any():
        return None
    negatives = scores[~positive]
    hardest = negatives.detach().argsort(descending=True, stable=True)[:hard_negatives]
    gaps = scores[positive].unsqueeze(1) - negatives[hardest].unsqueeze(0)
    return functional.relu(margin - gaps).mean()


def listwise_loss(scores: Tensor, labels: Tensor) -> Tensor | None:
    """ListNet top-1: cross-entropy of the scores' softmax against the evidence, each sentence an equal share.

    None without a positive sentence.
    """
    scores = _precise(scores)
    target = labels.to(scores)
    positive = target.sum()
    if not positive:
        return None
    return -(target / positive * functional.log_softmax(scores, dim=0)).sum()


def _precise(scores: Tensor) -> Tensor:
    """Half precision is too coarse for a margin of 0.2."""
    return scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores


def balanced_pos_weight(examples: Iterable[Example]) -> float:
    """How many negative sentences there are for each positive one; unlabelled examples do not count.

    Raises:
        ValueError: A positive or a negative sentence is missing.
    """
    labels = [label for example in examples for label in example.labels or ()]
    positive = sum(labels)
    if positive in (0, len(labels)):
        missing = "negative" if positive else "positive"
        raise ValueError(f"no {missing} sentence among {len(labels)} labelled ones: nothing to learn from")
    return (len(labels) - positive) / positive
