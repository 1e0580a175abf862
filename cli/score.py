"""`evigraph score`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.options import (
    AlignScoreBackboneOption,
    AlignScoreOption,
    BertScoreOption,
    CaseIdsOption,
    CasesOption,
    ConceptsOption,
    JsonOption,
    KeyOption,
    QuickUmlsOption,
    TaskOption,
)

if TYPE_CHECKING:
    from evals.scoring.scored_tasks import ScoredTask


def score(
    predictions: Annotated[
        Path,
        typer.Argument(
            help="A run folder, or a submission (.zip or .json).",
            metavar="RUN|SUBMISSION",
            show_default=False,
        ),
    ],
    key: KeyOption = None,
    cases: CasesOption = None,
    task: TaskOption = None,
    case_ids: CaseIdsOption = None,
    bertscore_model: BertScoreOption = None,
    alignscore: AlignScoreOption = None,
    alignscore_backbone: AlignScoreBackboneOption = None,
    quickumls: QuickUmlsOption = None,
    concepts: ConceptsOption = None,
    bioasq_compat: Annotated[
        bool,
        typer.Option(
            "--bioasq-compat",
            help="Of BioASQ, count as its scorer does: skip questions without an answer, and take any snippet"
            " of a right document for a hit.",
        ),
    ] = False,
    map_divisor: Annotated[
        Literal["capped", "gold", "ten"],
        typer.Option(
            "--map-divisor",
            help="Of BioASQ, what average precision of documents divides by: the smaller of 10 and their"
            " number (its years from 6 on), their number (1 and 2, and trec_eval), or 10 (3 to 5).",
        ),
    ] = "capped",
    rouge_su4: Annotated[
        Literal["perl", "textbook"],
        typer.Option(
            "--rouge-su4",
            help="Of BioASQ, ROUGE-SU4 as ROUGE-1.5.5 counts, without the last word alone, or as defined.",
        ),
    ] = "perl",
    as_json: JsonOption = False,
) -> None:
    """Score a run or a submission as the official scorers of ArchEHR-QA 2025 and 2026 do.

    A run is scored on every task that it answers and its key labels; a submission on one. What needs
    weights or a licence that is not here is named and left out, and no overall score is made up for it.
    A run of timeaware is scored on its verdicts: macro precision, recall and F1 of yes, no and unknown.
    A run of bioasq, and a submission to it, by BioASQ's measures of documents, snippets and answers.
    Brackets are 95 % intervals by bootstrap over cases.

    Example: evigraph score out/2026-11-21T10-15-tamu-ab12 --key dev/archehr-qa_key.json
    """
    from functools import partial

    from cases.errors import InputError
    from cli.bioasq import score_predictions
    from cli.print_scores import print_scores
    from cli.print_verdicts import print_verdict_scores
    from cli.terminal import print_json
    from evals.bioasq.parts import Definitions
    from evals.metrics.resources import MetricResources
    from evals.scoring.scored_tasks import score_run, score_submission
    from evals.verdicts.recorded import gives_verdicts
    from evals.verdicts.scores import score_verdicts
    from runs.folder import MANIFEST, RunFolder

    if not predictions.exists():
        raise InputError(predictions, "no such run folder or submission")
    resources = MetricResources(bertscore_model, alignscore, alignscore_backbone, quickumls, concepts)
    is_run = predictions.is_dir() or (predictions / MANIFEST).is_file()
    for_bioasq = partial(
        score_predictions,
        predictions,
        [*(cases or ()), *(key or ())],
        case_ids=case_ids,
        definitions=Definitions(bioasq_compat, map_divisor, rouge_su4),
        is_run=is_run,
        as_json=as_json,
    )
    match task:
        case "bioasq-a" | "bioasq-a+" | "bioasq-b":
            for_bioasq(task)
            return
    if task is None and _is_bioasq(predictions, is_run=is_run):
        for_bioasq(None)
        return
    if is_run and task is None and gives_verdicts(RunFolder(predictions)):
        verdicts = score_verdicts(RunFolder(predictions), cases or (), case_ids)
        if as_json:
            print_json({"predictions": str(predictions), "verdicts": [one.as_json() for one in verdicts]})
        else:
            print_verdict_scores(str(predictions), verdicts)
        return
    scored: list[ScoredTask]
    if is_run:
        scored = score_run(
            RunFolder(predictions),
            keys=key or (),
            case_files=cases or (),
            task=task,
            case_ids=case_ids,
            resources=resources,
        )
    else:
        if not key and not cases:
            raise typer.BadParameter("give its key: --key KEY, or --cases FILE with one beside")
        scored = score_submission(
            predictions,
            keys=key or (),
            case_files=cases or (),
            task=task,
            case_ids=case_ids,
            resources=resources,
        )
    if as_json:
        content: dict[str, Any] = {
            "predictions": str(predictions),
            "tasks": [one.as_json() for one in scored],
        }
        print_json(content)
        return
    print_scores(str(predictions), scored)


def _is_bioasq(predictions: Path, *, is_run: bool) -> bool:
    from cases.bioasq_submissions.files import looks_like_bioasq
    from evals.bioasq.recorded import gives_biomedical
    from runs.folder import RunFolder

    return gives_biomedical(RunFolder(predictions)) if is_run else looks_like_bioasq(predictions)
