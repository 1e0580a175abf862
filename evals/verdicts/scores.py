"""Scores of verdicts, for three answers and for two: macro measures of Vladika and Matthes 2024."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cases.records import Verdict
from cases.texts import plural
from evals.scoring.gold import GoldCase
from evals.scoring.scored_task import Score, ScoredTask
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, MeanOf, Pooled
from graph.recipe import Recipe
from nodes.reading.settings import ReadingSettings, VerdictSettings
from nodes.reading.verdict_votes import majority, weigh
from nodes.retrieval.document_records import EvidencePassage
from ranking.measures import PARTS, Part
from runs.record.folder import RunFolder
from runs.record.manifest import recorded_recipe

Classes = Literal[2, 3]

NAMES: Mapping[Classes, tuple[Verdict, ...]] = {3: ("yes", "no", "unknown"), 2: ("yes", "no")}
"""The answers that there are."""

_TITLES: Mapping[Classes, str] = {3: "yes, no or unknown", 2: "yes or no"}
_COUNTS = ("right", "given", "wanted")
"""Columns of an answer."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Right answers among all, in percent unless `scale` says otherwise."""

    classes: Classes
    scale: float = PERCENT

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns of right answers."""
        return tuple(range(0, len(_COUNTS) * self.classes, len(_COUNTS)))

    def of(self, totals: Floats, cases: float) -> Floats:
        return np.asarray(self.scale * totals[..., list(self.columns)].sum(axis=-1) / cases)


def macro_of_classes(classes: Classes, part: Part, scale: float = PERCENT) -> MeanOf:
    """Unweighted mean of a score of each answer.

    The macro F1 is the mean of the F1s, not the F1 of the means. An answer never given has precision 0,
    one that is nowhere right recall 0.
    """
    parts = tuple(Pooled(len(_COUNTS) * place, part, "zero") for place in range(classes))
    return MeanOf(parts, scale)


def statistics(classes: Classes) -> dict[str, CaseStatistic]:
    """Every score of an answer by its name."""
    macros = {f"macro_{part}": macro_of_classes(classes, part) for part in PARTS}
    return {**macros, "accuracy": Accuracy(classes)}


def case_matrix(gold: Sequence[Verdict], predicted: Sequence[Verdict], classes: Classes) -> Floats:
    """A row a case: for each answer whether it is right, given and wanted, shape (cases, 3 * classes)."""
    rows = [
        [
            float(value)
            for name in NAMES[classes]
            for value in (wanted == given == name, given == name, wanted == name)
        ]
        for wanted, given in zip(gold, predicted, strict=True)
    ]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(_COUNTS) * classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictScores(ScoredTask):
    """Scores of one number of answers, in percent; with two, of the questions whose key says yes or no.

    Attributes:
        gold: How often the key says each answer.
        given: How often the run does.
    """

    classes: Classes
    gold: Mapping[str, int]
    given: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        return {
            "classes": self.classes,
            **ScoredTask.as_json(self),
            "gold": dict(self.gold),
            "given": dict(self.given),
            "notes": list(self.notes),
        }


def score_verdicts(run: RunFolder, gold: Mapping[str, GoldCase]) -> list[VerdictScores]:
    """Score a run's verdicts with three answers and with two; empty where no question is done and has a key.

    The run's own verdict is one of them; the other is counted again from the same readings. Failed cases
    answer nothing, and are missing, never wrong.
    """
    wanted = {id_: one.case.gold.verdict for id_, one in gold.items() if one.case and one.case.gold.verdict}
    lines = {line["case_id"]: line for line in run.cases() if line["status"] == "done"}
    read = {id_: lines[id_]["evidence_passages"] for id_ in wanted if id_ in lines}
    recipe = recorded_recipe(run.manifest)
    scored = [score_questions(wanted, read, recipe, classes) for classes in NAMES]
    return [one for one in scored if one is not None]


def score_questions(
    key: Mapping[str, Verdict],
    read: Mapping[str, Sequence[EvidencePassage]],
    recipe: Recipe,
    classes: Classes,
) -> VerdictScores | None:
    """Score one number of answers; None where the key of no question says one of them.

    `read` has the passages of the questions that are done, in the order of reading.
    """
    names = NAMES[classes]
    ids = [id_ for id_ in read if key[id_] in names]
    if not ids:
        return None
    weighting = recipe.section(VerdictSettings).weighting
    gold = [key[id_] for id_ in ids]
    given = [majority(weigh(read[id_], weighting), classes) for id_ in ids]
    return VerdictScores(
        task=f"verdict-{classes}",
        title=f"verdict: {_TITLES[classes]}",
        case_ids=tuple(ids),
        columns=tuple(f"{name} {column}" for name in names for column in _COUNTS),
        matrix=case_matrix(gold, given, classes),
        scores=tuple(Score(name, one) for name, one in statistics(classes).items()),
        headline="macro_f1",
        headline_title="macro F1 of verdicts",
        # A mean over answers says little of one question.
        case_score="accuracy",
        unscored=tuple(id_ for id_ in key if id_ not in read),
        notes=_notes(recipe, classes, gold),
        classes=classes,
        gold={name: gold.count(name) for name in names},
        given={name: given.count(name) for name in names},
    )


def _notes(recipe: Recipe, classes: Classes, gold: Sequence[str]) -> tuple[str, ...]:
    verdict = recipe.section(VerdictSettings)
    reading = recipe.section(ReadingSettings)
    notes = []
    if classes != verdict.classes:
        notes.append(
            f"The run answered with {plural(verdict.classes, 'answer')}; these are counted again from"
            " its readings."
        )
    if classes == 2:
        notes.append("Questions whose key says unknown are left out; without a majority the answer is no.")
    absent = [name for name in NAMES[classes] if name not in gold]
    if absent:
        notes.append(f"The key never says {', '.join(absent)}, which counts as 0 in the means.")
    if reading.released:
        notes.append(f"As in the released code: {', '.join(reading.released)}.")
    return tuple(notes)
