"""Scores of predictions against questions with gold, by part and by type of question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cases.bioasq_json import QUESTION_TYPES
from cases.bioasq_submissions.prediction import BioasqPrediction
from cases.biomedical import QuestionType
from cases.records import Case
from evals.bioasq.parts import PARTS, Definitions, Part
from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import Floats

Group = Literal["all"] | QuestionType

OURS = Definitions()
"""What is counted unless a user says otherwise."""


@dataclass(frozen=True, slots=True)
class GroupScores:
    """Scores of some questions, 0 to 1.

    Attributes:
        questions: How many count.
        values: By name, each with its 95 % interval; the ends are nan for a single question.
    """

    questions: int
    values: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class PartScores:
    """Scores of a part.

    Attributes:
        groups: All questions, and each type where there are several.
        missing: Ids of questions with gold that nothing is said of; they count as 0, or not at all.
        definitions: How it was counted.
    """

    part: Part
    groups: Mapping[Group, GroupScores]
    missing: tuple[str, ...]
    definitions: Definitions

    @property
    def of_all(self) -> GroupScores:
        """Scores of all questions."""
        return self.groups["all"]

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        return {
            "part": self.part,
            "definitions": self.definitions.as_json(),
            "missing_questions": list(self.missing),
            "groups": {
                name: {
                    "questions": group.questions,
                    "values": {score: one.value for score, one in group.values.items()},
                    "intervals": {
                        score: [one.low, one.high]
                        for score, one in group.values.items()
                        if group.questions > 1
                    },
                }
                for name, group in self.groups.items()
            },
        }


@dataclass(frozen=True, slots=True)
class PartRows:
    """A row of numbers for each question that counts, in the order of the questions.

    Attributes:
        cases: The questions.
        matrix: Shape (questions, columns).
        missing: As in `PartScores`.
    """

    cases: tuple[Case, ...]
    matrix: Floats
    missing: tuple[str, ...]


def score_parts(
    cases: Sequence[Case],
    predictions: Iterable[BioasqPrediction],
    definitions: Definitions = OURS,
    parts: Iterable[Part] = PARTS,
) -> list[PartScores]:
    """Score every part that has gold and is given for at least one question.

    Args:
        cases: Questions with what experts say of them.
        predictions: One a question; those of other questions are left out.
        definitions: Where there are several ways to count.
        parts: Only these.
    """
    said = {prediction.id: prediction for prediction in predictions}
    scored = []
    for part in parts:
        rows = part_rows(part, cases, said, definitions)
        if rows.cases and len(rows.missing) < sum(map(PARTS[part].has_gold, cases)):
            scored.append(PartScores(part, _groups(part, rows), rows.missing, definitions))
    return scored


def part_rows(
    part: Part, cases: Iterable[Case], said: Mapping[str, BioasqPrediction], definitions: Definitions
) -> PartRows:
    """The numbers of a part, a question a row."""
    defined = PARTS[part]
    kept, rows, missing = [], [], []
    for case in filter(defined.has_gold, cases):
        prediction = said.get(case.id)
        if prediction is None or not defined.is_given(prediction):
            missing.append(case.id)
            if definitions.bioasq_compat:
                continue
            prediction = BioasqPrediction(case.id)
        kept.append(case)
        rows.append([*defined.row(case, prediction, definitions)])
    return PartRows(tuple(kept), np.asarray(rows, dtype=np.float64), tuple(missing))


def intervals(part: Part, matrix: Floats) -> dict[str, Interval]:
    """Every score of a part with its interval, by bootstrap over questions."""
    statistics = PARTS[part].statistics
    found = paired_bootstrap(matrix, matrix, [*statistics.values()])
    return {name: one.first for name, one in zip(statistics, found, strict=True)}


def _groups(part: Part, rows: PartRows) -> dict[Group, GroupScores]:
    groups: dict[Group, GroupScores] = {"all": GroupScores(len(rows.cases), intervals(part, rows.matrix))}
    types = [case.biomedical.type if case.biomedical else None for case in rows.cases]
    if len(set(types)) == 1:
        return groups
    for kind in QUESTION_TYPES:
        chosen = rows.matrix[[one == kind for one in types]]
        if len(chosen):
            groups[kind] = GroupScores(len(chosen), intervals(part, chosen))
    return groups
