"""Everything that costs a submission points, found before it is handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cases.submissions.check_cited_text import cited_text_faults
from cases.submissions.check_ids import evidence_faults, link_faults
from cases.submissions.check_texts import text_faults
from cases.submissions.fault import Fault, worst_first
from cases.submissions.forms import field_of, form_faults
from cases.submissions.known_ids import Expected, KnownIds
from cases.submissions.prediction import Task

_NOTHING = KnownIds()


def find_faults(entries: Sequence[object], task: Task, expected: Expected | None) -> list[Fault]:
    """Find the faults of a submission's entries, those that the official scorer refuses first.

    Args:
        entries: As the file has them.
        task: The task that they are handed in to.
        expected: The cases that must be there, with their ids; None skips what needs them.
    """
    faults: list[Fault] = []
    for number, entry in enumerate(entries, start=1):
        of_form = form_faults(entry, number, task)
        faults += of_form or _content_faults(entry, task, expected or {})
    faults += _duplicate_faults(entries)
    if not entries:
        faults.append(Fault("refused", None, "", "no case in it", "Hand in every case of the test set"))
    if expected is not None:
        faults += _case_set_faults(entries, expected)
    return worst_first(faults)


def skipped_checks(task: Task, expected: Expected | None) -> list[str]:
    """Name the checks that cannot be made with what is known, each with what it would take."""
    skipped = []
    if expected is None:
        skipped.append("missing and extra cases (--key or --cases)")
    known = (expected or {}).values()
    if task != "2026-1" and (not known or any(ids.sentences is None for ids in known)):
        skipped.append("unknown sentence ids (--key, or --cases with notes)")
    if task == "2026-4" and (not known or any(ids.answer_sentences is None for ids in known)):
        skipped.append("unknown answer ids (--key with clinician_answer_sentences)")
    return skipped


def _content_faults(entry: Any, task: Task, expected: Expected) -> Iterator[Fault]:
    """Of an entry that the loader accepts."""
    case: str = entry["case_id"]
    value = entry[field_of(task)]
    known = expected.get(case, _NOTHING)
    match task:
        case "2025":
            yield from cited_text_faults(case, value, known)
        case "2026-2":
            yield from evidence_faults(case, value, known)
        case "2026-4":
            yield from link_faults(case, value, known)
        case _:
            yield from text_faults(case, value, task, known)


def _duplicate_faults(entries: Iterable[object]) -> Iterator[Fault]:
    counts = Counter(_case_ids(entries))
    for case, count in counts.items():
        if count > 1:
            fault = f"{count} entries, each of which is scored"
            yield Fault("penalised", case, "", fault, "Keep one entry for each case")


def _case_set_faults(entries: Sequence[object], expected: Expected) -> Iterator[Fault]:
    # An id that is a number is refused for that; it is not missing as well.
    there = {str(entry["case_id"]) for entry in entries if isinstance(entry, Mapping) and "case_id" in entry}
    for case in expected:
        if case not in there:
            yield Fault("refused", case, "", "missing", "Hand in every case")
    for case in dict.fromkeys(_case_ids(entries)):
        if case not in expected:
            yield Fault("refused", case, "", "not a case of the key", "Leave it out")


def _case_ids(entries: Iterable[object]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Mapping) and isinstance(case := entry.get("case_id"), str):
            yield case
