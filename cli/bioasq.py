"""What `submit`, `validate` and `score` do for BioASQ's phases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cases.bioasq_submissions.prediction import BioasqTask
    from evals.bioasq.parts import Definitions
    from evals.bioasq.run_submission import BioasqSubmission
    from runs.folder import RunFolder


def submit_run(run: Path, task: BioasqTask, out: Path | None, *, fill_missing: bool, as_json: bool) -> None:
    """Write a run's submission to a phase."""
    from cases.bioasq_submissions.files import write_entries
    from cli.fault_table import fault_fields
    from cli.terminal import output, print_json, safe
    from evals.bioasq.run_submission import prepare
    from runs.folder import RunFolder

    folder = RunFolder(run)
    target = out or run / f"submission-{task}.json"
    if target.suffix.lower() != ".json":
        raise typer.BadParameter(f"{target}: a submission to BioASQ ends in .json", param_hint="--out")
    ready = prepare(folder, task, fill_missing=fill_missing)
    if not ready.refused:
        write_entries(target, ready.entries)
    _remark(folder, ready)
    following = [] if ready.refused else _next(folder, target, task)
    if as_json:
        print_json(
            {
                "run": str(run),
                "task": task,
                "file": None if ready.refused else str(target),
                "questions": len(ready.entries),
                "filled": list(ready.filled),
                "faults": fault_fields(ready.faults),
                "next": following,
            }
        )
    elif not ready.refused:
        output().print(safe(f"{len(ready.entries)} questions in {target}"), soft_wrap=True)
        for number, command in enumerate(following):
            output().print(safe(f"{'     ' if number else 'next:'} {command}"), soft_wrap=True)
    if ready.refused:
        raise typer.Exit(1)


def validate_file(
    file: Path, task: BioasqTask | None, questions: Sequence[Path], rows: int, *, as_json: bool
) -> None:
    """Check a submission by BioASQ's rules."""
    from cases.bioasq_submissions.files import read_entries
    from cases.bioasq_submissions.prediction import BIOASQ_TASKS
    from cases.bioasq_submissions.validate import expected_of, find_faults, possible_tasks, skipped_checks
    from cases.load import find_cases
    from cli.fault_table import counted, fault_fields, print_faults
    from cli.terminal import output, print_json, safe

    entries = read_entries(file)
    if task is None:
        possible = possible_tasks(entries)
        if len(possible) != 1:
            choices = " or ".join(f"--task {one}" for one in possible or BIOASQ_TASKS)
            reason = "it may be handed in to several phases" if possible else "it fits no phase"
            raise typer.BadParameter(f"{file}: {reason}; add {choices}", param_hint="--task")
        (task,) = possible
    expected = expected_of(find_cases(questions)) if questions else None
    faults = find_faults(entries, task, expected)
    skipped = skipped_checks(task, expected)
    refused = sum(fault.severity == "refused" for fault in faults)
    if as_json:
        print_json(
            {
                "file": str(file),
                "task": task,
                "entries": len(entries),
                "ok": not refused,
                "refused": refused,
                "penalised": len(faults) - refused,
                "faults": fault_fields(faults),
                "not_checked": skipped,
            }
        )
    else:
        console = output()
        print_faults(console, faults, rows)
        if skipped:
            console.print(safe(f"not checked: {'; '.join(skipped)}"), soft_wrap=True)
        what = f"{len(entries)} {'question' if len(entries) == 1 else 'questions'} for {task}"
        console.print(safe(f"{file}: {what}: {counted(faults) or 'no fault found'}"), soft_wrap=True)
    if refused:
        raise typer.Exit(1)


def score_predictions(
    predictions: Path,
    questions: Sequence[Path],
    task: BioasqTask | None,
    *,
    case_ids: str | None,
    definitions: Definitions,
    is_run: bool,
    as_json: bool,
) -> None:
    """Score a run or a submission, on one phase or on what there is."""
    from cli.print_bioasq import print_part_scores
    from cli.terminal import print_json
    from evals.bioasq.recorded import score_file, score_run
    from runs.folder import RunFolder

    if is_run:
        scored = score_run(RunFolder(predictions), questions, case_ids, definitions, task)
    elif questions:
        scored = score_file(predictions, questions, case_ids, definitions, task)
    else:
        raise typer.BadParameter("give the questions with their gold: --cases QUESTIONS.json")
    if as_json:
        print_json({"predictions": str(predictions), "bioasq": [one.as_json() for one in scored]})
    else:
        print_part_scores(str(predictions), scored)


def _remark(folder: RunFolder, ready: BioasqSubmission) -> None:
    """Say on standard error, a line each, what is wrong and what is not as one may think."""
    from cli.fault_table import counted
    from cli.terminal import messages, safe

    console = messages()
    for fault in ready.faults:
        line = " ".join(f"{fault.severity}: {fault.line}. {fault.remedy}".split())
        console.print(safe(line, "red" if fault.severity == "refused" else "yellow"), soft_wrap=True)
    if ready.refused:
        console.print(safe(f"nothing written: {counted(ready.faults)}", "red"), soft_wrap=True)
        return
    if ready.filled:
        names, count = ", ".join(ready.filled), len(ready.filled)
        what = "question" if count == 1 else "questions"
        console.print(safe(f"WITHOUT AN ANSWER: {count} {what}: {names}", "yellow"), soft_wrap=True)
    inputs = folder.manifest.inputs
    if inputs.cases == inputs.limit:
        console.print(safe(f"the run was limited to {inputs.limit} questions (--limit)"), soft_wrap=True)


def _next(folder: RunFolder, target: Path, task: BioasqTask) -> list[str]:
    against = [part for path in folder.manifest.inputs.paths for part in ("--cases", path)]
    return [
        shlex.join(["evigraph", verb, str(target), "--task", task, *against])
        for verb in ("validate", "score")
    ]
