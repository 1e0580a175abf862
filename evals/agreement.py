"""Agreement between people who reviewed the same cases, sentence by sentence, with intervals over cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from cases.records import Label
from evals.pages.tables import NO_VALUE, Column, Format, Table, interval_object
from evals.statistics.agreement import CohenKappa, FleissKappa, KrippendorffAlpha
from evals.statistics.bootstrap import Interval, intervals_of
from runs.review.reviewers import Standing

Scale = Literal["labels", "essential"]
SCALES: dict[Scale, str] = {"labels": "all three", "essential": "essential?"}
"""All labels apart, or supplementary and not relevant ones together."""

_LABELS: tuple[str, ...] = get_args(Label)
_SHARES = Format(3)

Statistic = CohenKappa | FleissKappa | KrippendorffAlpha
Labelled = Mapping[str, Sequence[Mapping[str, int]]]
"""By case id: of each sentence, the label of each reviewer as a number."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One coefficient.

    Attributes:
        name: `cohen`, `fleiss` or `alpha`.
        scale: Which labels were told apart.
        reviewers: Whose labels are compared; of Fleiss' kappa and alpha, everybody's.
        cases: With sentences that count.
        sentences: That count.
        equal: Of those, sentences to which all gave the same label.
        value: With its interval; None where all labels are alike, since chance explains that as well.
    """

    name: Literal["cohen", "fleiss", "alpha"]
    scale: Scale
    reviewers: tuple[str, ...]
    cases: int
    sentences: int
    equal: int
    value: Interval | None

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("name", "scale", "cases", "sentences", "equal")},
            "reviewers": list(self.reviewers),
            **({"value": None, "interval": None} if self.value is None else interval_object(self.value)),
        }


@dataclass(frozen=True, slots=True)
class ReviewerAgreement:
    """Agreement of all who reviewed a run.

    Attributes:
        cases: That at least two people labelled.
        blind: How many of their reviews were blind.
        reviews: Their number.
        differing: By case, the sentences on which reviewers differ; cases without any are left out.
        left_out: Sentences that Fleiss' kappa leaves out, as others have more reviewers, or fewer.
    """

    cases: int
    reviews: int
    blind: int
    differing: Mapping[str, Sequence[str]]
    left_out: int
    measures: tuple[Measure, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("cases", "reviews", "blind", "left_out")},
            "differing": {case_id: list(ids) for case_id, ids in self.differing.items()},
            "measures": [one.as_json() for one in self.measures],
        }

    @property
    def caution(self) -> str:
        """Warning to show with the numbers; empty if none is needed."""
        if self.blind == self.reviews:
            return ""
        return (
            f"{self.reviews - self.blind:,} of {self.reviews:,} reviews were not blind: reviewers who saw"
            " labels of the run or of others agree with them more often"
        )

    @property
    def table(self) -> Table:
        columns = [
            Column("", "name", wraps=False),
            Column("labels", "text", wraps=False),
            Column("reviewers", "text"),
            Column("sentences"),
            Column("equal", wraps=False),
            Column("value", wraps=False),
            Column("95 %", wraps=False),
        ]
        return Table(columns, [_row(one) for one in self.measures])


_NAMES = {"cohen": "Cohen's kappa", "fleiss": "Fleiss' kappa", "alpha": "alpha"}


def _row(one: Measure) -> list[str]:
    value = NO_VALUE if one.value is None else _SHARES.number(one.value.value)
    reviewers = ", ".join(one.reviewers) if one.name == "cohen" else "all"
    equal = f"{100 * one.equal / one.sentences:.1f} %" if one.sentences else NO_VALUE
    bracket = _SHARES.bracket(one.value) or NO_VALUE
    return [_NAMES[one.name], SCALES[one.scale], reviewers, f"{one.sentences:,}", equal, value, bracket]


def reviewer_agreement(standings: Mapping[str, Standing]) -> ReviewerAgreement:
    """Agreement on the sentences that at least two people labelled; adjudications do not count as reviews."""
    several = {id_: one.by_reviewer for id_, one in standings.items() if len(one.by_reviewer) > 1}
    found: list[Measure] = []
    left_out = 0
    names = sorted({name for reviews in several.values() for name in reviews})
    for scale in SCALES:
        labelled = {
            case_id: _numbers({name: one.labels or {} for name, one in reviews.items()}, scale)
            for case_id, reviews in several.items()
        }
        count = len(_LABELS) if scale == "labels" else 2
        for pair in combinations(names, 2):
            found += _measure("cohen", scale, pair, CohenKappa(count), _of_pair(labelled, pair))
        raters, same = _equally_often(labelled)
        if raters > 1:
            found += _measure("fleiss", scale, tuple(names), FleissKappa(count, raters), same)
        everything = {id_: [list(one.values()) for one in items] for id_, items in labelled.items()}
        found += _measure("alpha", scale, tuple(names), KrippendorffAlpha(count), everything)
        left_out = sum(map(len, labelled.values())) - sum(map(len, same.values()))
    reviews = [review for one in several.values() for review in one.values()]
    return ReviewerAgreement(
        cases=len(several),
        reviews=len(reviews),
        blind=sum(one.blind for one in reviews),
        differing={id_: standings[id_].differing for id_ in several if standings[id_].differing},
        left_out=left_out,
        measures=tuple(found),
    )


def _numbers(labels: Mapping[str, Mapping[str, str]], scale: Scale) -> list[dict[str, int]]:
    """Labels by reviewer, for each sentence with at least two."""
    ids = dict.fromkeys(id_ for each in labels.values() for id_ in each)
    numbers = {label: number for number, label in enumerate(_LABELS)}
    if scale == "essential":
        numbers = {label: int(label == "essential") for label in _LABELS}
    items = [{name: numbers[each[id_]] for name, each in labels.items() if id_ in each} for id_ in ids]
    return [item for item in items if len(item) > 1]


def _of_pair(labelled: Labelled, pair: tuple[str, str]) -> dict[str, list[list[int]]]:
    found = {
        case_id: [[item[name] for name in pair] for item in items if all(name in item for name in pair)]
        for case_id, items in labelled.items()
    }
    return {case_id: items for case_id, items in found.items() if items}


def _equally_often(labelled: Labelled) -> tuple[int, dict[str, list[list[int]]]]:
    """How many labels most sentences have, and those sentences."""
    counts = Counter(len(item) for items in labelled.values() for item in items)
    if not counts:
        return 0, {}
    raters = max(counts, key=lambda count: (counts[count], count))
    found = {
        case_id: [list(item.values()) for item in items if len(item) == raters]
        for case_id, items in labelled.items()
    }
    return raters, {case_id: items for case_id, items in found.items() if items}


def _measure(
    name: Literal["cohen", "fleiss", "alpha"],
    scale: Scale,
    reviewers: tuple[str, ...],
    statistic: Statistic,
    items: Mapping[str, Sequence[Sequence[int]]],
) -> list[Measure]:
    """None without sentences."""
    sentences = [labels for one in items.values() for labels in one]
    if not sentences:
        return []
    alike = len({label for labels in sentences for label in labels}) == 1
    matrix = np.stack([statistic.row(one) for one in items.values()])
    value = None if alike else intervals_of(matrix, {name: statistic})[name]
    equal = sum(len(set(labels)) == 1 for labels in sentences)
    return [Measure(name, scale, reviewers, len(items), len(sentences), equal, value)]
