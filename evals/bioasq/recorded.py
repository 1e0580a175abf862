"""What a run says of BioASQ's questions, and what experts say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from cases.bioasq_submissions.files import read_predictions
from cases.bioasq_submissions.prediction import BioasqPrediction, BioasqTask
from cases.biomedical import Snippet
from cases.load import find_cases
from cases.records import Case
from evals.bioasq.parts import PARTS, PARTS_OF, Definitions
from evals.bioasq.scores import OURS, PartScores, score_parts
from evals.scoring.case_ids import parse_case_ids
from evals.scoring.matching import ScoringError
from graph.recipe import Recipe
from runs.folder import Line, RunFolder

_NODES = frozenset({"retrieve_documents", "adopt_snippets", "answer_exactly", "answer_ideally"})
"""A graph that answers BioASQ's questions has one of them."""


def gives_biomedical(run: RunFolder) -> bool:
    """Whether the run finds documents for BioASQ's questions or answers them."""
    shape = run.manifest.graph
    return shape is not None and not _NODES.isdisjoint(shape.nodes)


def predictions_of_run(run: RunFolder) -> list[BioasqPrediction]:
    """What the run says of each question that is done; a failed one is missing, never empty."""
    found = Recipe.model_validate(run.manifest.recipe).documents.finds
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
    inputs = run.manifest.inputs
    source = find_cases(list(case_files) or [Path(path) for path in inputs.paths])
    cases = [
        case
        for case in islice(source, inputs.limit)
        if isinstance(case, Case) and run.manifest.covers(case.id)
    ]
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
    return _scored(str(path), cases, read_predictions(path), case_ids, definitions, task)


def _scored(
    origin: str,
    cases: Iterable[Case],
    predictions: Sequence[BioasqPrediction],
    case_ids: str | None,
    definitions: Definitions,
    task: BioasqTask | None,
) -> list[PartScores]:
    wanted = None if case_ids is None else parse_case_ids(case_ids)
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
