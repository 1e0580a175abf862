"""One number for each part of a run on BioASQ's questions, as lists and pages of runs show them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from cases.load import find_cases
from cases.records import Case
from evals.bioasq.parts import PARTS, Part
from evals.bioasq.scores import OURS, part_rows, predictions_of_run
from nodes.core.recipe import RecipeError
from runs.record.folder import RunFolder
from storage.errors import InputError

HEADLINES: Mapping[Part, tuple[str, str]] = {
    "yesno": ("accuracy", "accuracy of yes and no"),
    "factoid": ("mrr", "MRR of factoids"),
    "list": ("f1", "F1 of lists"),
    "ideal": ("rouge_su4_f1", "ROUGE-SU4 F1 of ideal answers"),
    "documents": ("map", "MAP of documents"),
    "snippets": ("f1", "F1 of snippets"),
}
"""The measure of each part, and its name; the first part that a run gives stands for the run."""


class Headline(NamedTuple):
    """A score of some questions.

    Attributes:
        value: 0 to 1, as BioASQ gives it.
        questions: Those with gold that are done.
    """

    name: str
    value: float
    questions: int


def headlines(run: RunFolder) -> tuple[Headline, ...]:
    """The scores of what a run gives and its question files have gold for, over the questions that are done.

    Empty where nothing can be scored, or its recipe or a question file cannot be read any more.
    """
    inputs = run.manifest.inputs
    try:
        said = {prediction.id: prediction for prediction in predictions_of_run(run)}
        source = islice(find_cases(inputs.case_files), inputs.limit)
        cases = [case for case in source if isinstance(case, Case) and case.id in said]
    except (InputError, RecipeError):
        return ()
    found = []
    for part, (measure, name) in HEADLINES.items():
        rows = part_rows(part, cases, said, OURS)
        if rows.cases and len(rows.missing) < len(rows.cases):
            value = PARTS[part].statistics[measure].of(rows.matrix.sum(axis=0), len(rows.cases))
            found.append(Headline(name, float(value), len(rows.cases)))
    return tuple(found)
