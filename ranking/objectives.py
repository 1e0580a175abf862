"""What a ranker is trained to do with the sentences of a case (TAMU 2026, section 4.1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from cases.definitions import Section
from ranking.examples import Example

Objective = Literal["pointwise", "pairwise", "listwise", "pointwise+pairwise", "pointwise+listwise"]


class ObjectiveSettings(Section):
    """The objective and its constants; the defaults are the paper's where it gives them.

    Attributes:
        alpha: Share of the pointwise part in a hybrid; 0.1 lets the ranking part dominate.
        margin: By how many logits a positive sentence has to lead, of the pairwise part.
        hard_negatives: How many of the highest negative sentences each positive one is held against.
        pos_weight: Weight of a positive sentence in the pointwise part; see `balanced_pos_weight`.
    """

    objective: Objective = "pointwise"
    alpha: float = Field(0.1, ge=0, le=1)
    margin: float = Field(0.2, ge=0, allow_inf_nan=False)
    hard_negatives: int = Field(5, ge=1)
    pos_weight: float = Field(1.0, gt=0, allow_inf_nan=False)


def balanced_pos_weight(examples: Iterable[Example]) -> float:
    """How many negative sentences there are for each positive one; unlabelled examples do not count.

    Raises:
        ValueError: There is no positive sentence, or no negative one.
    """
    labels = [label for example in examples for label in example.labels or ()]
    positive = sum(labels)
    if positive in (0, len(labels)):
        missing = "negative" if positive else "positive"
        raise ValueError(f"no {missing} sentence among {len(labels)} labelled ones: nothing to learn from")
    return (len(labels) - positive) / positive
