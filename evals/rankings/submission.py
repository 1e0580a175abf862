"""From ranked cases to a submission to subtask 2 of ArchEHR-QA 2026."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cases.errors import InputError
from cases.submissions.fault import Fault
from cases.submissions.forms import entry_of
from cases.submissions.known_ids import KnownIds
from cases.submissions.prediction import Prediction, Task
from cases.submissions.validate import find_faults
from cases.submissions.write import write_submission
from ranking.examples import Example
from ranking.ranked_rows import RankedRow

TASK: Task = "2026-2"
_SUFFIXES = (".zip", ".json")


def check_target(path: Path, examples: Sequence[Example]) -> None:
    """Refuse what cannot become a submission before anything is ranked.

    Raises:
        InputError: Wrong suffix, or the examples are no cases with sentence ids.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(path, "a submission ends in .zip or .json")
    nameless = next((example.id for example in examples if not example.sentence_ids), None)
    if nameless is not None:
        fault = f"example {nameless!r} has no sentence ids, so it is no case of ArchEHR-QA"
        raise InputError(path, fault, "Rank ArchEHR cases, or leave --submission out")


def write_ranked(path: Path, rows: Iterable[RankedRow], examples: Sequence[Example]) -> list[Fault]:
    """Write the submission, unless the official scorer would refuse it.

    Returns:
        What the scorer would refuse; empty if it is written.

    Raises:
        InputError: It cannot be written.
    """
    predictions = [Prediction(row.id, evidence=row.selected) for row in rows]
    known = {example.id: KnownIds(frozenset(example.sentence_ids)) for example in examples}
    faults = find_faults([entry_of(one, TASK) for one in predictions], TASK, known)
    refused = [fault for fault in faults if fault.severity == "refused"]
    if not refused:
        write_submission(path, TASK, predictions)
    return refused
