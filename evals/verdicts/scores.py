"""Scores of a run's verdicts, for three answers and for two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.verdicts.classes import NAMES, Classes, case_matrix, statistics
from evals.verdicts.recorded import Questions, read_questions
from runs.folder import RunFolder


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
            "values": {name: one.value for name, one in self.values.items()},
            "intervals": {name: [one.low, one.high] for name, one in self.values.items() if self.cases > 1},
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
    matrix = case_matrix(gold, given, classes)
    wanted = statistics(classes)
    intervals = paired_bootstrap(matrix, matrix, list(wanted.values()))
    return VerdictScores(
        classes=classes,
        values={name: one.first for name, one in zip(wanted, intervals, strict=True)},
        cases=len(scored),
        gold={name: gold.count(name) for name in names},
        given={name: given.count(name) for name in names},
        unscored=questions.unanswered,
        notes=_notes(questions, classes, gold),
    )


def _notes(questions: Questions, classes: Classes, gold: Sequence[str]) -> tuple[str, ...]:
    verdict, reading = questions.recipe.verdict, questions.recipe.reading
    notes = []
    if classes != verdict.classes:
        notes.append(
            f"The run answered with {verdict.classes} answers; these are counted again from its readings."
        )
    if classes == 2:
        notes.append("Questions whose key says unknown are left out; without a majority the answer is no.")
    absent = [name for name in NAMES[classes] if name not in gold]
    if absent:
        notes.append(f"The key never says {', '.join(absent)}, which counts as 0 in the means.")
    if reading.released:
        notes.append(f"As in the released code: {', '.join(reading.released)}.")
    return tuple(notes)
