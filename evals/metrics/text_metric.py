"""What every text metric is to those who call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

MetricName = Literal[
    "bleu", "rouge1", "rouge2", "rougeL", "rougeLsum", "sari", "bertscore", "alignscore", "medcon"
]
"""As the leaderboards name them."""


@dataclass(frozen=True, slots=True)
class TextPair:
    """A prediction and what it is held against.

    Attributes:
        prediction: The system's text.
        reference: The reference, or the context that the prediction should follow from.
        source: What was rewritten (SARI alone reads it).
    """

    prediction: str
    reference: str
    source: str = ""


class TextMetric(Protocol):
    """Scores pairs one by one; their mean is the metric."""

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that one pass gives: one, or the four of ROUGE."""

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair in the order of `names`: 0 to 1, SARI 0 to 100.

        These are the units of the official scorers, which scale means and not scores; BERTScore may be below
        its range, and MEDCON above.
        """


@dataclass(frozen=True, slots=True)
class NotComputed:
    """A metric that cannot be computed here, and what it needs, such as `needs --bertscore-model DIR`."""

    names: tuple[str, ...]
    reason: str
