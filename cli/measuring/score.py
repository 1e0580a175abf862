"""`evigraph score`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.completion import run_names
from cli.flags import MetricFlags
from cli.options import CasesOption, KeyOption, TaskOption, WorstFirstOption, run_folder
from cli.set_values import pairs
from cli.terminal import Result, print_line, print_message

if TYPE_CHECKING:
    from runs.record.purged import Purged


def score(
    predictions: Annotated[
        Path,
        typer.Argument(
            help="A run folder, its tag, last, or a submission (.zip or .json).",
            metavar="RUN|SUBMISSION",
            autocompletion=run_names,
            parser=run_folder,
        ),
    ],
    key: KeyOption = None,
    cases: CasesOption = None,
    task: TaskOption = None,
    case_ids: Annotated[
        str | None, typer.Option(help="Only these cases, such as 1-20,35.", metavar="IDS")
    ] = None,
    *,
    metrics: MetricFlags,
    bioasq_compat: Annotated[
        bool,
        typer.Option(
            "--bioasq-compat",
            help="For BioASQ: count as its scorer does, skip questions without an answer, and take any"
            " snippet"
            " of a right document for a hit.",
        ),
    ] = False,
    map_divisor: Annotated[
        Literal["capped", "gold", "ten"],
        typer.Option(
            help="For BioASQ: the divisor of average precision of documents: the smaller of 10 and their"
            " number (its years from 6 on), their number (1 and 2, and trec_eval), or 10 (3 to 5)."
        ),
    ] = "capped",
    rouge_su4: Annotated[
        Literal["perl", "textbook"],
        typer.Option(
            "--rouge-su4",
            help="For BioASQ: ROUGE-SU4 as ROUGE-1.5.5 counts it, without the last word alone, or as"
            " defined.",
        ),
    ] = "perl",
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-under",
            help="Exit with 1 if this value, as --json names it, is smaller or missing, such as"
            " strict_micro_f1=60. Repeatable.",
            metavar="METRIC=VALUE",
        ),
    ] = None,
    worst_first: WorstFirstOption = False,
) -> Result:
    """Score a run or a submission as the official scorers of ArchEHR-QA 2025 and 2026 do.

    A run is scored on every task that it answers and its key labels; a submission on one. Metrics that lack
    weights or a licence are named and left out, and then the overall score is omitted. A run of timeaware is
    scored on its verdicts: macro precision, recall and F1 of yes, no and unknown. A run of bioasq, and a
    submission to it, by BioASQ's measures of documents, snippets and answers. Brackets are 95 % intervals by
    bootstrap over cases. Where several tasks have a value of one name, the smallest counts for --fail-under.

    Example: evigraph score out/2026-11-21T10-15-tamu-ab12 --key dev/archehr-qa_key.json
    """
    from cli.measuring.print_scores import print_scores
    from evals.bioasq.parts import Definitions
    from evals.run_scores import Asked, family_of, is_run, score_run, score_submission, scores_object
    from runs.record.folder import RunFolder
    from runs.record.purged import purged_of
    from storage.errors import InputError

    if not predictions.exists():
        raise InputError(predictions, "no such run folder or submission")
    wanted = _least_values(fail_under or ())
    of_run = is_run(predictions)
    if of_run and (purged := purged_of(predictions)) is not None and not (key or cases or task or case_ids):
        return _kept(predictions, purged, wanted)
    family = family_of(predictions, task)
    keys, case_files = key or (), cases or ()
    if family == "questions":
        # Questions and what experts say of them are one file.
        keys, case_files = (), (*case_files, *keys)
    if not of_run and not keys and not case_files:
        if family == "questions":
            raise typer.BadParameter("give the questions with their gold: --cases QUESTIONS.json")
        raise typer.BadParameter("give its key: --key KEY, or --cases FILE with a key in the same folder")
    asked: Asked = {"keys": keys, "case_files": case_files, "task": task, "case_ids": case_ids}
    asked["resources"] = metrics.resources
    asked["definitions"] = Definitions(bioasq_compat, map_divisor, rouge_su4)
    scored = score_run(RunFolder(predictions), **asked) if of_run else score_submission(predictions, **asked)
    return Result(
        {"predictions": str(predictions), **scores_object(family, scored, worst_first=worst_first)},
        lambda: print_scores(str(predictions), scored, worst_first=worst_first),
        _code(wanted, [one.shown for one in scored]),
    )


def _least_values(texts: Sequence[str]) -> dict[str, float]:
    """The bounds of --fail-under.

    Raises:
        typer.BadParameter: A bound is not a number.
    """
    found = {}
    for name, text in pairs("--fail-under", texts, "METRIC=VALUE"):
        try:
            found[name] = float(text)
        except ValueError:
            raise typer.BadParameter(f"--fail-under {name}: {text!r} is not a number") from None
    return found


def _code(wanted: Mapping[str, float], found: Sequence[Mapping[str, float]]) -> int:
    """0 if each wanted value is there and large enough; else 1, and why is printed."""
    import difflib

    known = sorted({name for values in found for name in values})
    short = False
    for name, least in wanted.items():
        values = [one[name] for one in found if name in one]
        # NaN is not large enough.
        if values and all(value >= least for value in values):
            continue
        short = True
        near = difflib.get_close_matches(name, known, n=1)
        missing = f"no such value{f'; did you mean {near[0]!r}?' if near else ''}"
        print_message(
            f"--fail-under {name}={least:g}: " + (f"it is {min(values):.2f}" if values else missing), "red"
        )
    return int(short)


def _kept(path: Path, purged: Purged, wanted: Mapping[str, float]) -> Result:
    """The scores of a purged run, as they were before."""
    from evals.run_scores import flat_scores
    from evals.scoring.gold import ScoringError

    if not purged.scores:
        raise ScoringError(f"{path}: {purged.words}, and no scores were kept")

    def print_kept() -> None:
        print_line(f"{path}: {purged.words}; these are the scores of before")
        for name, value in flat_scores(purged.scores):
            print_line(f"{name:<46} {value}")

    return Result(
        {"predictions": str(path), "purged": purged.at, **purged.scores},
        print_kept,
        _code(wanted, [one.get("values", {}) for group in purged.scores.values() for one in group]),
    )
