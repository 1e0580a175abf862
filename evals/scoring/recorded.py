"""What a run predicts of its cases, and its key: what the user gives, or what the run was made with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from cases.errors import InputError
from cases.load import find_cases, sort_keys
from cases.records import Case
from cases.submissions.archehr import CitedSentence, Prediction
from evals.scoring.gold import GoldCase, gold_of_case, read_gold
from runs.folder import Line, RunFolder


def gold_of_run(
    run: RunFolder, keys: Sequence[Path] = (), case_files: Sequence[Path] = ()
) -> dict[str, GoldCase]:
    """What is known of the run's cases, by case id, in input order.

    Without the run's case files, as where they have moved, a key alone still labels sentences.

    Args:
        run: The run; its own case files and keys are read where they were.
        keys: Key files instead of those.
        case_files: Case files instead of those.

    Raises:
        InputError: A file cannot be read, or a given key belongs to other cases.
    """
    inputs = run.manifest.inputs
    keys, case_files = sort_keys(keys, case_files)
    known = list(keys) or [Path(key) for key in inputs.keys]
    try:
        source = find_cases(list(case_files) or [Path(path) for path in inputs.paths], known)
    except InputError:
        if case_files or not known:
            raise
        found = read_gold(known, [])
        return {case_id: case for case_id, case in found.items() if run.manifest.covers(case_id)}
    if keys:
        source.check()
    return {
        case.id: gold_of_case(case)
        for case in islice(source, inputs.limit)
        if isinstance(case, Case) and run.manifest.covers(case.id)
    }


def predictions(run: RunFolder) -> Iterator[Prediction]:
    """Stream the predictions of the cases that are done, in the order of `cases.jsonl`.

    A case that failed or waits for a person predicts nothing, whatever it came to before: it is missing,
    never empty.
    """
    for line in run.cases():
        if line["status"] == "done":
            yield prediction_of(line)


def prediction_of(line: Line) -> Prediction:
    """Read the prediction in the line of a case that is done; what the run did not ask for is None.

    Whose answer was aligned decides: links to the clinician's answer are subtask 4 of 2026, and those of
    the generated one are the citations of 2025. Runs of older versions lack both.
    """
    labels: Mapping[str, str] = line["labels"] or {}
    alignment: Mapping[str, list[str]] = line.get("alignment") or {}
    aligned = line.get("aligned_answer")
    return Prediction(
        case_id=line["case_id"],
        question=line.get("interpreted_question"),
        evidence=tuple(id_ for id_, label in labels.items() if label == "essential") if labels else None,
        answer=line.get("answer"),
        links=tuple((id_, cited) for id_, ids in alignment.items() for cited in ids)
        if aligned == "clinician"
        else None,
        cited_answer=tuple(
            CitedSentence(sentence["text"], tuple(alignment.get(sentence["id"], ())))
            for sentence in line.get("answer_sentences") or ()
        )
        if aligned == "generated"
        else None,
    )
