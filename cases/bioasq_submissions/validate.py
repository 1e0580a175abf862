"""Everything that is wrong with a submission, found before it is handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cases.bioasq_submissions.forms import form_faults
from cases.bioasq_submissions.prediction import BioasqTask
from cases.bioasq_submissions.rules import rule_faults
from cases.biomedical import QuestionType
from cases.records import Case, InvalidCase
from cases.submissions.fault import Fault, worst_first

Expected = Mapping[str, QuestionType | None]
"""The questions of a test set and their types, by id."""


def expected_of(cases: Iterable[Case | InvalidCase]) -> Expected:
    """What a submission is held against; a question that cannot be read is expected without a type."""
    return {
        case.id: case.biomedical.type if isinstance(case, Case) and case.biomedical else None
        for case in cases
    }


def find_faults(entries: Sequence[object], task: BioasqTask, expected: Expected | None) -> list[Fault]:
    """Find the faults of a submission's questions, those first that keep it from being handed in.

    Args:
        entries: As the file has them.
        task: The phase that they are handed in to.
        expected: The test set; None skips what needs it.
    """
    faults: list[Fault] = []
    readable = []
    for number, entry in enumerate(entries, start=1):
        of_form = form_faults(entry, number)
        faults += of_form
        if not of_form and isinstance(entry, Mapping):
            readable.append(entry)
    for entry in readable:
        faults += rule_faults(entry, task, (expected or {}).get(entry["id"]))
    if not entries:
        faults.append(Fault("refused", None, "questions", "none", "Hand in the questions of the test set"))
    there = [entry["id"] for entry in entries if isinstance(entry, Mapping) and "id" in entry]
    faults += _faults_of_ids([id_ for id_ in there if isinstance(id_, str)], expected)
    return worst_first(faults)


def skipped_checks(task: BioasqTask, expected: Expected | None) -> list[str]:
    """Name the checks that cannot be made with what is known."""
    if expected is not None:
        return []
    skipped = ["missing and unknown questions (--cases QUESTIONS.json)"]
    return skipped if task == "bioasq-a" else [*skipped, "the form that each type asks for (the same)"]


def possible_tasks(entries: Iterable[object]) -> tuple[BioasqTask, ...]:
    """The phases that entries have fields of; answers may be of A+ or B, which look alike."""
    fields = {name for entry in entries if isinstance(entry, Mapping) for name in entry}
    found: list[BioasqTask] = []
    if fields & {"documents", "snippets"}:
        found.append("bioasq-a")
    if fields & {"exact_answer", "ideal_answer"}:
        found += ["bioasq-a+", "bioasq-b"]
    return tuple(found)


def _faults_of_ids(ids: Sequence[str], expected: Expected | None) -> Iterator[Fault]:
    for id_, count in Counter(ids).items():
        if count > 1:
            yield Fault("refused", id_, "id", f"{count} entries", "Keep one of each question")
    if expected is None:
        return
    given = dict.fromkeys(ids)
    for id_ in given:
        if id_ not in expected:
            yield Fault("refused", id_, "id", "not a question of the test set", "Leave it out")
    for id_ in expected:
        if id_ not in given:
            yield Fault("penalised", id_, "", "missing", "A question that is not handed in scores 0")
