"""Scores of runs and submissions against questions with gold, by part and by type of question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cases.biomedical import QuestionType, Snippet
from cases.formats.bioasq_json import QUESTION_TYPES
from cases.load import find_cases
from cases.records import Case
from cases.submissions.bioasq import BioasqPrediction, BioasqTask, read_answers
from evals.bioasq.parts import PARTS, PARTS_OF, Definitions, Part
from evals.scoring.gold import ScoringError, wanted_ids
from evals.statistics.bootstrap import Interval, interval_fields, intervals_of
from evals.statistics.case_totals import Floats
from graph.system import find_system
from nodes.retrieval.document_settings import DocumentSettings
from runs.record.folder import Line, RunFolder
from runs.record.manifest import recorded_recipe, recorded_source

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
                name: {"questions": group.questions, **interval_fields(group.values, group.questions)}
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


def gives_biomedical(run: RunFolder) -> bool:
    """Whether the run finds documents for BioASQ's questions or answers them."""
    return find_system(run.manifest.system).score == "biomedical"


def predictions_of_run(run: RunFolder) -> list[BioasqPrediction]:
    """What the run says of each question that is done; a failed one is missing, never empty."""
    found = recorded_recipe(run.manifest).section(DocumentSettings).finds
    return [prediction_of(line, found=found) for line in run.cases() if line["status"] == "done"]


def prediction_of(line: Line, *, found: bool) -> BioasqPrediction:
    """Read the line of a question that is done.

    Args:
        line: Of `cases.jsonl`.
        found: Whether the run searched; if not, its snippets are those that the question came with, and no
            prediction.
    """
    ranking, snippets, exact = (line.get(name) for name in ("document_ranking", "snippets", "exact_answer"))
    if isinstance(exact, list):
        exact = tuple(tuple(names) for names in exact)
    return BioasqPrediction(
        id=line["case_id"],
        documents=tuple(one["id"] for one in ranking) if found and ranking is not None else None,
        snippets=tuple(map(_snippet, snippets)) if found and snippets is not None else None,
        exact_answer=exact,
        ideal_answer=line.get("answer"),
    )


def score_run(
    run: RunFolder,
    case_files: Sequence[Path] = (),
    case_ids: str | None = None,
    definitions: Definitions = OURS,
    task: BioasqTask | None = None,
) -> list[PartScores]:
    """Score a run on what it gives and its question file has gold for.

    Args:
        run: One that `gives_biomedical` is true of.
        case_files: Question files instead of those that the run was made with.
        case_ids: Only these questions.
        definitions: How to count.
        task: Only this phase.

    Raises:
        InputError: A file cannot be read.
        ScoringError: Nothing can be scored.
    """
    source = recorded_source(run.manifest, case_files, ())
    cases = [case for case in source if isinstance(case, Case)]
    return _scored(str(run.path), cases, predictions_of_run(run), case_ids, definitions, task)


def score_file(
    path: Path,
    case_files: Sequence[Path],
    case_ids: str | None = None,
    definitions: Definitions = OURS,
    task: BioasqTask | None = None,
) -> list[PartScores]:
    """Score a submission against question files with gold.

    Raises:
        InputError: A file cannot be read.
        ScoringError: Nothing can be scored.
    """
    cases = [case for case in find_cases(case_files) if isinstance(case, Case)]
    return _scored(str(path), cases, read_answers(path), case_ids, definitions, task)


def _groups(part: Part, rows: PartRows) -> dict[Group, GroupScores]:
    statistics = PARTS[part].statistics
    groups: dict[Group, GroupScores] = {
        "all": GroupScores(len(rows.cases), intervals_of(rows.matrix, statistics))
    }
    types = [case.biomedical.type if case.biomedical else None for case in rows.cases]
    if len(set(types)) == 1:
        return groups
    for kind in QUESTION_TYPES:
        chosen = rows.matrix[[one == kind for one in types]]
        if len(chosen):
            groups[kind] = GroupScores(len(chosen), intervals_of(chosen, statistics))
    return groups


def _scored(
    origin: str,
    cases: Iterable[Case],
    predictions: Sequence[BioasqPrediction],
    case_ids: str | None,
    definitions: Definitions,
    task: BioasqTask | None,
) -> list[PartScores]:
    wanted = None if case_ids is None else wanted_ids(case_ids)
    kept = [case for case in cases if wanted is None or case.id in wanted]
    scored = score_parts(kept, predictions, definitions, PARTS if task is None else PARTS_OF[task])
    if not scored:
        raise ScoringError(
            f"{origin}: none of its questions has both, something said of it and gold in the question file."
            " Give the file that has the gold: --cases QUESTIONS.json"
        )
    return scored


def _snippet(fields: Mapping[str, object]) -> Snippet:
    begin, end = fields.get("begin"), fields.get("end")
    return Snippet(
        str(fields["document"]),
        str(fields["text"]),
        str(fields.get("section") or ""),
        begin if isinstance(begin, int) else None,
        end if isinstance(end, int) else None,
    )
