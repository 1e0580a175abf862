"""A calibrated rule: the model's log-odds and a ranker's scores, added up and cut in each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from cases.definitions import Section
from ranking.cutoffs import Cutoff, cutoff_text, select
from ranking.prefixes import Floats, probabilities, standardised

DIGITS = 4
"""Digits of confidences, so that last-bit differences between machines do not matter."""

_LEAST = 0.5 * 10**-DIGITS
"""Probabilities are recorded in so many digits; none is taken to be nearer to 0 or 1 than that."""

_NEEDS_PROBABILITIES = ("threshold", "adaptive")


class EvidenceRule(Section):
    """From votes and ranker's scores to essential sentences, as `evigraph calibrate` writes it.

    Attributes:
        ranker_weight: Share of the ranker in the sum; the model has the rest.
        scale: `case` adds standardised values, less their mean over the note and over their deviation, so
            that only the order and the distances within the note count; `none` adds them as they are.
        cutoff: What is taken of the sum.
        least: No sentence is taken if the model gives none of the note this P(essential); None always takes
            what the cut-off takes.
        slope: From the sum to the log-odds of a sentence being essential, on the labelled cases; None where
            the rule only selects.
        intercept: As `slope`.
    """

    ranker_weight: float = Field(ge=0, le=1)
    scale: Literal["case", "none"] = "case"
    cutoff: Cutoff
    least: float | None = Field(None, gt=0, lt=1)
    slope: float | None = Field(None, allow_inf_nan=False)
    intercept: float = Field(0.0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _cuts_what_there_is(self) -> EvidenceRule:
        if self.scale == "case" and self.cutoff.rule in _NEEDS_PROBABILITIES:
            raise ValueError(
                f"cutoff.rule is {self.cutoff.rule!r}, but scale is 'case', whose values are not log-odds;"
                " use 'share', 'top_k' or 'deviations', or scale 'none'"
            )
        return self

    @model_validator(mode="after")
    def _reads_what_least_is_of(self) -> EvidenceRule:
        if self.least is not None and not self.reads_model:
            raise ValueError("least is of the model's probabilities, but ranker_weight is 1")
        return self

    @property
    def reads_model(self) -> bool:
        return self.ranker_weight < 1

    @property
    def reads_ranker(self) -> bool:
        return self.ranker_weight > 0

    def __str__(self) -> str:
        """`0.50 model + 0.50 ranker, standardised, cut-off share=0.35`."""
        parts = [("model", 1 - self.ranker_weight), ("ranker", self.ranker_weight)]
        added = " + ".join(f"{weight:.2f} {name}" for name, weight in parts if weight)
        if not (self.reads_model and self.reads_ranker):
            added = "ranker" if self.reads_ranker else "model"
        scale = ", standardised" if self.scale == "case" else ""
        none = "" if self.least is None else f", none below P {self.least:g}"
        return f"{added}{scale}, cut-off {cutoff_text(self.cutoff)}{none}"


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of a rule for a case.

    Attributes:
        sums: Of each sentence.
        chosen: Positions of the essential sentences, in note order.
        probabilities: P(essential) of each sentence; None without a slope.
        confidence: The share of right labels that those probabilities promise, the certainty of the case;
            None without a slope.
    """

    sums: Floats
    chosen: list[int]
    probabilities: Floats | None
    confidence: float | None


def log_odds(
    sentence_ids: Sequence[str],
    counts: Mapping[str, int],
    votes: int,
    reported: Mapping[str, float | None] | None,
) -> Floats:
    """The model's log-odds of each sentence, shape (sentences,).

    From the probabilities that the model gave for at least half of the sentences; one without has the
    lowest of its note, as it counts as not essential. Otherwise from shares of its votes, half a vote added
    on either side (Haldane and Anscombe), so that no share is 0 or 1.

    Args:
        sentence_ids: In note order.
        counts: Votes of the model alone.
        votes: Usable ones.
        reported: Mean P(essential) over the votes, None for a sentence that none of them gave one for.
    """
    known = [None if reported is None else reported.get(id_) for id_ in sentence_ids]
    given = np.array([value for value in known if value is not None], dtype=np.float64)
    if given.size and 2 * given.size >= len(sentence_ids):
        least = float(given.min())
        shares = np.array([least if value is None else value for value in known], dtype=np.float64)
        shares = np.clip(shares, _LEAST, 1 - _LEAST)
    else:
        shares = (np.array([counts[id_] for id_ in sentence_ids], dtype=np.float64) + 0.5) / (votes + 1)
    return np.asarray(np.log(shares) - np.log1p(-shares))


def add_up(rule: EvidenceRule, model: Floats | None, ranker: Floats | None) -> Floats:
    """The weighted sum of the rule's inputs.

    Args:
        rule: With the weights.
        model: Log-odds, shape (sentences,); None where the rule does not read them.
        ranker: Scores, shape (sentences,); None where the rule does not read them.
    """
    weighted = [(1 - rule.ranker_weight, model), (rule.ranker_weight, ranker)]
    parts = [(weight, values) for weight, values in weighted if weight and values is not None]
    scale = standardised if rule.scale == "case" else np.asarray
    return np.asarray(np.sum([weight * scale(values) for weight, values in parts], axis=0))


def judge(rule: EvidenceRule, model: Floats | None, ranker: Floats | None) -> Judged:
    """Apply a rule to a case.

    Args:
        rule: To apply.
        model: As in `add_up`.
        ranker: As in `add_up`.
    """
    sums = add_up(rule, model, ranker)
    chosen = select(rule.cutoff, sums)
    if rule.least is not None and model is not None and probabilities(model).max() < rule.least:
        chosen = []
    if rule.slope is None:
        return Judged(sums, chosen, None, None)
    found = probabilities(rule.slope * sums + rule.intercept)
    right = 1 - found
    right[chosen] = found[chosen]
    return Judged(sums, chosen, found, round(float(right.mean()), DIGITS))
