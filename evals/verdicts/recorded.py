"""What a run recorded of its questions, ready to be counted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from cases.load import find_cases
from cases.records import Case, Verdict
from evals.scoring.case_ids import parse_case_ids
from evals.scoring.matching import ScoringError
from graph.recipe import Recipe
from nodes.reading.literature_records import EvidencePassage
from nodes.reading.verdict_votes import majority, weigh
from runs.folder import RunFolder

Keep = Callable[[Sequence[EvidencePassage]], list[EvidencePassage]]
"""Which of the passages that were read are counted."""


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

    def keeping(self, keep: Keep) -> Questions:
        """The same with fewer passages."""
        kept = (replace(one, passages=tuple(keep(one.passages))) for one in self.answered)
        return replace(self, answered=tuple(kept))

    def vote(self, question: Question, classes: Literal[2, 3]) -> Verdict:
        """Count the passages of a question by the rule of the recipe, for two answers or three."""
        return majority(weigh(question.passages, self.recipe.verdict.weighting), classes)


def gives_verdicts(run: RunFolder) -> bool:
    """Whether the run answers questions by yes, no or unknown."""
    return run.manifest.literature is not None


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
    inputs = run.manifest.inputs
    source = find_cases(list(case_files) or [Path(path) for path in inputs.paths])
    gold = {
        case.id: case.gold.verdict
        for case in islice(source, inputs.limit)
        if isinstance(case, Case) and case.gold.verdict and run.manifest.covers(case.id)
    }
    if case_ids is not None:
        wanted = parse_case_ids(case_ids)
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
    return Questions(answered, unanswered, Recipe.model_validate(run.manifest.recipe))
