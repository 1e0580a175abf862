"""Scores of answers to BioASQ's questions, by part and by type of question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cases.biomedical import QuestionType, Snippet
from cases.formats.bioasq_json import QUESTION_TYPES
from cases.submissions.bioasq import BioasqPrediction
from evals.bioasq.parts import PARTS, Definitions, Part
from evals.pages.tables import Format
from evals.scoring.gold import GoldCase
from evals.scoring.scored_task import Score, ScoredTask
from evals.statistics.bootstrap import interval_fields
from nodes.retrieval.document_settings import DocumentSettings
from runs.record.folder import Line, RunFolder
from runs.record.manifest import recorded_recipe

Group = Literal["all"] | QuestionType

OURS = Definitions()
"""The default definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartScores(ScoredTask):
    """A part, 0 to 1. Questions with gold that nothing is said of count as 0, or not at all.

    Attributes:
        types: Of each question that counts.
        definitions: How it was counted.
    """

    types: Mapping[str, QuestionType | None]
    definitions: Definitions

    @property
    def groups(self) -> dict[Group, PartScores]:
        """All questions, and those of each type where there are several."""
        found: dict[Group, PartScores] = {"all": self}
        if len({*self.types.values()}) > 1:
            for kind in QUESTION_TYPES:
                ids = {id_ for id_, type_ in self.types.items() if type_ == kind}
                if ids:
                    found[kind] = self.only(ids)
        return found

    @property
    def shown(self) -> dict[str, float]:
        return {
            ".".join([self.task, *([] if name == "all" else [name]), score]): value
            for name, group in self.groups.items()
            for score, value in group.values.items()
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.task,
            "definitions": self.definitions.as_json(),
            "missing_questions": list(self.unscored),
            "groups": {
                name: {
                    "questions": len(group.case_ids),
                    **interval_fields(group.intervals(), len(group.case_ids)),
                }
                for name, group in self.groups.items()
            },
        }


def score_parts(
    gold: Mapping[str, GoldCase],
    predictions: Iterable[BioasqPrediction],
    definitions: Definitions = OURS,
    parts: Iterable[Part] = PARTS,
) -> list[PartScores]:
    """Score every part that has gold and is given for at least one question of the key."""
    said = {prediction.id: prediction for prediction in predictions}
    cases = [one.case for one in gold.values() if one.case is not None]
    scored = []
    for part in parts:
        defined = PARTS[part]
        rows, missing = {}, []
        known = [case for case in cases if defined.has_gold(case)]
        for case in known:
            prediction = said.get(case.id)
            if prediction is None or not defined.is_given(prediction):
                missing.append(case.id)
                if definitions.bioasq_compat:
                    continue
                prediction = BioasqPrediction(case.id)
            rows[case.id] = [*defined.row(case, prediction, definitions)]
        if len(missing) == len(known):
            continue
        matrix = np.asarray([*rows.values()], dtype=np.float64)
        headline, headline_title = defined.headline
        types = {case.id: case.biomedical.type if case.biomedical else None for case in known}
        scored.append(
            PartScores(
                task=part,
                title=defined.title,
                case_ids=tuple(rows),
                columns=tuple(map(str, range(matrix.shape[1]))),
                matrix=matrix,
                scores=tuple(Score(name, one) for name, one in defined.statistics.items()),
                headline=headline,
                headline_title=headline_title,
                unscored=tuple(missing),
                form=Format(4),
                types={id_: types[id_] for id_ in rows},
                definitions=definitions,
            )
        )
    return scored


def predictions_of_run(run: RunFolder) -> list[BioasqPrediction]:
    """Predictions for each completed question; a failed one is missing, never empty."""
    found = recorded_recipe(run.manifest).section(DocumentSettings).finds
    return [prediction_of(line, found=found) for line in run.cases() if line["status"] == "done"]


def prediction_of(line: Line, *, found: bool) -> BioasqPrediction:
    """Read the line of a question that is done.

    Unless the run searched (`found`), its snippets are those that the question came with, and no prediction.
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


def _snippet(fields: Mapping[str, object]) -> Snippet:
    begin, end = fields.get("begin"), fields.get("end")
    return Snippet(
        str(fields["document"]),
        str(fields["text"]),
        str(fields.get("section") or ""),
        begin if isinstance(begin, int) else None,
        end if isinstance(end, int) else None,
    )
