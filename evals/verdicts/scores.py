"""Scores of a run's verdicts, for three answers and for two: macro measures of Vladika and Matthes 2024."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cases.records import Case, Verdict
from cases.texts import plural
from evals.scoring.gold import ScoringError, wanted_ids
from evals.statistics.bootstrap import Interval, interval_fields, intervals_of
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, MeanOf, Pooled
from graph.recipe import Recipe
from graph.system import find_system
from nodes.reading.settings import ReadingSettings, VerdictSettings
from nodes.reading.verdict_votes import majority, weigh
from nodes.retrieval.document_records import EvidencePassage
from ranking.measures import PARTS, Part
from runs.record.folder import RunFolder
from runs.record.manifest import recorded_recipe, recorded_source

Classes = Literal[2, 3]

NAMES: Mapping[Classes, tuple[Verdict, ...]] = {3: ("yes", "no", "unknown"), 2: ("yes", "no")}
"""The answers that there are."""

_COUNTS = 3
"""Columns of an answer: right, given, wanted."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Right answers among all, in percent."""

    classes: Classes

    @property
    def columns(self) -> tuple[int, ...]:
        """Of each answer those that are right."""
        return tuple(range(0, _COUNTS * self.classes, _COUNTS))

    def of(self, totals: Floats, cases: float) -> Floats:
        """The share."""
        return np.asarray(PERCENT * totals[..., list(self.columns)].sum(axis=-1) / cases)


def macro_of_classes(classes: Classes, part: Part) -> MeanOf:
    """Unweighted mean of a score of each answer, in percent.

    The macro F1 is the mean of the F1s, not the F1 of the means. An answer never given has precision 0,
    one that is nowhere right recall 0.
    """
    return MeanOf(tuple(Pooled(_COUNTS * place, part, "zero") for place in range(classes)), PERCENT)


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
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), _COUNTS * classes)


@dataclass(frozen=True, slots=True)
class Question:
    """A question whose case is done.

    Attributes:
        gold: What the key says.
        passages: In the order of reading.
    """

    id: str
    gold: Verdict
    passages: tuple[EvidencePassage, ...]


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of a run that have a verdict in their key.

    Attributes:
        answered: Those that are done.
        unanswered: Ids of the others: failed cases answer nothing, and are missing, never wrong.
        recipe: What they were answered with.
    """

    answered: tuple[Question, ...]
    unanswered: tuple[str, ...]
    recipe: Recipe

    def vote(self, question: Question, classes: Literal[2, 3]) -> Verdict:
        """Count the passages of a question by the rule of the recipe, for two answers or three."""
        return majority(weigh(question.passages, self.recipe.section(VerdictSettings).weighting), classes)


def gives_verdicts(run: RunFolder) -> bool:
    """Whether the run answers questions by yes, no or unknown."""
    return find_system(run.manifest.system).score == "verdict"


def read_questions(run: RunFolder, case_files: Sequence[Path] = (), case_ids: str | None = None) -> Questions:
    """Read a run beside what its case files say.

    Args:
        run: One that gives verdicts.
        case_files: Instead of those that the run was made with.
        case_ids: Only these, as `1-20,34`.

    Raises:
        InputError: A case file cannot be read.
        ScoringError: No question has both, a verdict in its file and one of the run.
    """
    source = recorded_source(run.manifest, case_files, ())
    gold = {case.id: case.gold.verdict for case in source if isinstance(case, Case) and case.gold.verdict}
    if case_ids is not None:
        wanted = wanted_ids(case_ids)
        gold = {id_: verdict for id_, verdict in gold.items() if id_ in wanted}
    lines = {line["case_id"]: line for line in run.cases() if line["status"] == "done"}
    answered = tuple(
        Question(id_, verdict, tuple(lines[id_]["evidence_passages"]))
        for id_, verdict in gold.items()
        if id_ in lines
    )
    if not answered:
        raise ScoringError(
            f"{run.path}: none of its questions is done and has a verdict in its case file. Give the file"
            " that says yes, no or unknown: --cases FILE"
        )
    unanswered = tuple(id_ for id_ in gold if id_ not in lines)
    return Questions(answered, unanswered, recorded_recipe(run.manifest))


@dataclass(frozen=True, slots=True)
class VerdictScores:
    """Scores of one number of answers, 0 to 100.

    Attributes:
        values: By name, each with its 95 % interval; the ends are nan for a single case.
        cases: Questions that are scored; with two answers those whose key says yes or no.
        gold: How often the key says each answer.
        given: How often the run does.
        unscored: Ids of questions with a key that are not done.
        notes: What a reader must know to compare these numbers, a sentence each.
    """

    classes: Classes
    values: Mapping[str, Interval]
    cases: int
    gold: Mapping[str, int]
    given: Mapping[str, int]
    unscored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        return {
            "classes": self.classes,
            "scored_cases": self.cases,
            "unscored_cases": list(self.unscored),
            **interval_fields(self.values, self.cases),
            "gold": dict(self.gold),
            "given": dict(self.given),
            "notes": list(self.notes),
        }


def score_verdicts(
    run: RunFolder, case_files: Sequence[Path] = (), case_ids: str | None = None
) -> list[VerdictScores]:
    """Score a run's verdicts with three answers and with two; what has no question is left out.

    The run's own verdict is one of them; the other is counted again from the same readings.

    Raises:
        InputError: A case file cannot be read.
        ScoringError: Nothing can be scored.
    """
    questions = read_questions(run, case_files, case_ids)
    scored = [score_questions(questions, classes) for classes in NAMES]
    return [one for one in scored if one is not None]


def score_questions(questions: Questions, classes: Classes) -> VerdictScores | None:
    """Score one number of answers; None where the key of no question says one of them."""
    names = NAMES[classes]
    scored = [one for one in questions.answered if one.gold in names]
    if not scored:
        return None
    gold = [one.gold for one in scored]
    given = [questions.vote(one, classes) for one in scored]
    return VerdictScores(
        classes=classes,
        values=intervals_of(case_matrix(gold, given, classes), statistics(classes)),
        cases=len(scored),
        gold={name: gold.count(name) for name in names},
        given={name: given.count(name) for name in names},
        unscored=questions.unanswered,
        notes=_notes(questions, classes, gold),
    )


def _notes(questions: Questions, classes: Classes, gold: Sequence[str]) -> tuple[str, ...]:
    verdict = questions.recipe.section(VerdictSettings)
    reading = questions.recipe.section(ReadingSettings)
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
