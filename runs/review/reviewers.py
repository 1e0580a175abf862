"""Assignments of cases to reviewers, and the combined result of several reviews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, TypeAdapter, ValidationError

from cases.formats.json_border import first_fault
from cases.texts import plural
from runs.record.added_lines import AddedLines, OfCase
from runs.record.audit import record_if_possible
from runs.record.manifest import WAITING, RunError
from runs.record.trace_file import Line
from runs.review.reviews import Moment, Review, Reviewer, Reviews, fingerprint, make_independent_review

if TYPE_CHECKING:
    from runs.record.reading import Run

ASSIGNMENTS = "assignments.jsonl"

_REVIEWER: TypeAdapter[str] = TypeAdapter(Reviewer)


class Assignment(OfCase):
    """Assignment of a case to reviewers; the last one of a case counts."""

    reviewers: Annotated[tuple[Reviewer, ...], AfterValidator(lambda names: tuple(dict.fromkeys(names)))]
    assigned_at: Moment


class Assignments(AddedLines[Assignment]):
    """The assignments of a run."""

    def __init__(self, run: Path) -> None:
        super().__init__(run / ASSIGNMENTS, Assignment)

    def by_case(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the reviewers of each assigned case.

        Raises:
            RunError: The file holds something else.
        """
        return {case_id: lines[-1].reviewers for case_id, lines in self.histories().items()}


def names(given: str) -> list[str]:
    """Names of reviewers, separated by commas.

    Raises:
        RunError: A name is invalid or repeated.
    """
    found = []
    for name in given.split(","):
        try:
            found.append(_REVIEWER.validate_python(name.strip()))
        except ValidationError as error:
            raise RunError(f"reviewer {name.strip()!r}: {first_fault(error)}") from None
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise RunError(f"reviewer {twice!r} is named twice")
    return found


def assign(
    case_ids: Sequence[str],
    reviewers: Sequence[str],
    each: int,
    known: Mapping[str, tuple[str, ...]],
    at: datetime | None = None,
) -> list[Assignment]:
    """Give every case as many reviewers, and every reviewer as many cases, as far as that goes.

    `case_ids` are in the order of their queues; `known` assignments are kept, and count.

    Returns:
        The cases that get further reviewers, with all that they have then.

    Raises:
        RunError: There are fewer reviewers than a case is to have.
    """
    if each > len(reviewers):
        raise RunError(f"each case is to have {plural(each, 'reviewer')}, but only {len(reviewers)} named")
    load = Counter(name for assigned in known.values() for name in assigned)
    # Who shares cases with whom: each pair shares about as many, so that all have someone to agree with.
    met: Counter[frozenset[str]] = Counter()
    moment = (at or datetime.now(UTC)).isoformat(timespec="milliseconds")
    made = []
    for case_id in case_ids:
        chosen = list(known.get(case_id, ()))
        before = len(chosen)
        while sum(name in reviewers for name in chosen) < each:
            free = (name for name in reviewers if name not in chosen)
            following = min(
                free, key=lambda name: (load[name], sum(met[frozenset((name, one))] for one in chosen))
            )
            met.update(frozenset((following, one)) for one in chosen)
            load[following] += 1
            chosen.append(following)
        if len(chosen) > before:
            made.append(Assignment(case_id=case_id, reviewers=tuple(chosen), assigned_at=moment))
    return made


def assign_cases(
    run: Run,
    reviewers: Sequence[str],
    each: int,
    *,
    case_ids: Sequence[str] = (),
    only_waiting: bool = False,
    noted: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Assign the cases of a run whose notes have sentences, all or only those named; how many were assigned.

    `noted` goes into the audit log.

    Raises:
        RunError: There are fewer reviewers than a case is to have.
    """
    chosen = [
        row.case_id
        for row in run.summaries()
        if (not case_ids or row.case_id in case_ids)
        and (not only_waiting or row.status == WAITING)
        and (found := run.case(row.case_id)) is not None
        and found.sentences
    ]
    assignments = Assignments(run.path)
    made = assign(chosen, reviewers, each, assignments.by_case())
    assignments.add(*made)
    if made:
        record_if_possible(run.path, "assigned", to=[*reviewers], cases=len(made), **noted)
    return len(made)


class Outdated(RunError):
    """The case or its reviews have changed since they were shown."""


@dataclass(frozen=True)
class Standing:
    """Combined result of the reviews of one case.

    Attributes:
        history: All its reviews, oldest first.
    """

    assigned: tuple[str, ...]
    history: Sequence[Review]

    @cached_property
    def by_reviewer(self) -> Mapping[str, Review]:
        """The last labels of each reviewer, adjudications left out."""
        return {one.reviewer: one for one in self.history if one.labels is not None and not one.adjudicates}

    @property
    def last_labels(self) -> Review | None:
        """The last review with labels, from which the next one starts."""
        return next((one for one in reversed(self.history) if one.labels is not None), None)

    @property
    def sentence_ids(self) -> tuple[str, ...]:
        """Ids of all sentences that somebody has labelled, in the order of the note."""
        return tuple(dict.fromkeys(id_ for one in self.by_reviewer.values() for id_ in one.labels or ()))

    @property
    def missing(self) -> list[str]:
        return [name for name in self.assigned if name not in self.by_reviewer]

    @property
    def differing(self) -> list[str]:
        """Ids of the sentences on which reviewers differ, in the order of the note."""
        labels = [one.labels or {} for one in self.by_reviewer.values()]
        return [id_ for id_ in self.sentence_ids if len({each[id_] for each in labels if id_ in each}) > 1]

    @property
    def adjudication(self) -> Review | None:
        """The decision between the reviewers; None once somebody has labelled the case after it."""
        last = self.last_labels
        return last if last is not None and last.adjudicates else None

    @property
    def undecided(self) -> bool:
        """Whether reviewers differ without an adjudication."""
        return self.adjudication is None and bool(self.differing)

    def seen_by(self, name: str, *, admin: bool = False) -> Standing:
        """The reviews that a person may see: until all have labelled the case, their own unless an admin."""
        if admin or not self.missing:
            return self
        return Standing(self.assigned, [one for one in self.history if one.reviewer == name])

    def view(self, line: Line) -> str:
        """Identifies the result and the reviews that a person is shown; a review has to send it back."""
        return f"{fingerprint(line)}-{len(self.history)}"

    def demand_view(self, line: Line, view: str) -> None:
        """Require that a review is about the current result.

        `view` is what its reviewer was shown.

        Raises:
            Outdated: The case has another result since, or there is another review that the person may see.
        """
        result, _, count = view.partition("-")
        if result != fingerprint(line):
            raise Outdated("The case has come to another result since it was shown.")
        if count != str(len(self.history)):
            raise Outdated("Somebody has reviewed this case since it was shown.")

    @property
    def counting(self) -> Review | None:
        """The review whose labels count: of an assigned case only once all agree, or it is adjudicated."""
        labelled = [one for one in self.history if one.labels is not None]
        if self.adjudication is not None or not self.assigned:
            return labelled[-1] if labelled else None
        return None if self.missing or self.differing else labelled[-1]


def decide(
    line: Line,
    standing: Standing,
    *,
    reviewer: str,
    labels: Mapping[str, str],
    comment: str = "",
    seconds: float | None = None,
) -> Review:
    """A decision between the reviewers of a case.

    `labels` are at least of the sentences on which reviewers differ; where they agree, that label stays.

    Raises:
        RunError: Nobody has labelled the case, or a sentence is left open.
    """
    case_id, given = line["case_id"], [one.labels or {} for one in standing.by_reviewer.values()]
    if not given:
        raise RunError(f"case {case_id!r}: it has no labels by a person yet")
    open_ones = [id_ for id_ in standing.differing if id_ not in labels]
    if open_ones:
        raise RunError(f"case {case_id!r}: reviewers differ on {', '.join(open_ones)}; label each of them")
    agreed = {id_: label for each in given for id_, label in each.items()}
    return make_independent_review(
        line,
        tuple(agreed),
        reviewer=reviewer,
        labels={**agreed, **labels},
        adjudicates=True,
        comment=comment,
        seconds=seconds,
    )


class ReviewedRun:
    """Reviews and assignments of a run, as any process adds to them."""

    def __init__(self, run: Path) -> None:
        self.reviews = Reviews(run)
        self.assignments = Assignments(run)

    def version(self) -> tuple[int, int]:
        """Differs wherever there are other reviews or assignments.

        Raises:
            RunError: A file holds something else.
        """
        self.reviews.refresh()
        self.assignments.refresh()
        return self.reviews.version, self.assignments.version

    def standing(self, case_id: str) -> Standing:
        """Combined result of the reviews of a case.

        Raises:
            RunError: A file holds something else.
        """
        return Standing(self.assignments.by_case().get(case_id, ()), self.reviews.history(case_id))

    def standings(self) -> dict[str, Standing]:
        """Results of every case that is assigned or reviewed.

        Raises:
            RunError: A file holds something else.
        """
        assigned, histories = self.assignments.by_case(), self.reviews.histories()
        return {
            case_id: Standing(assigned.get(case_id, ()), histories.get(case_id, ()))
            for case_id in [*assigned, *(id_ for id_ in histories if id_ not in assigned)]
        }

    def counting(self) -> dict[str, Review]:
        """The review whose labels count, of each case that has one.

        Raises:
            RunError: A file holds something else.
        """
        found = {case_id: one.counting for case_id, one in self.standings().items()}
        return {case_id: review for case_id, review in found.items() if review is not None}


@dataclass(frozen=True, slots=True)
class Queue:
    """The cases that one person is to review.

    Attributes:
        case_ids: In input order.
        done: Those of them that the person has labelled, with the last review of each.
    """

    reviewer: str
    case_ids: tuple[str, ...]
    done: Mapping[str, Review]

    @property
    def open(self) -> list[str]:
        return [id_ for id_ in self.case_ids if id_ not in self.done]

    @property
    def seconds(self) -> float:
        """Time spent on the cases that are done, as far as it was measured."""
        return sum(one.seconds or 0.0 for one in self.done.values())

    @property
    def seconds_left(self) -> float | None:
        """Time that the open cases will take at the mean pace of the measured ones; None without any."""
        measured = [one.seconds for one in self.done.values() if one.seconds]
        return len(self.open) * sum(measured) / len(measured) if measured else None

    def after(self, case_id: str) -> str | None:
        """The next open case behind one, from the start again at the end; None where no other is open."""
        here = self.case_ids.index(case_id) + 1 if case_id in self.case_ids else 0
        order = self.case_ids[here:] + self.case_ids[:here]
        return next((id_ for id_ in order if id_ not in self.done and id_ != case_id), None)


def queue_of(reviewer: str, case_ids: Sequence[str], standings: Mapping[str, Standing]) -> Queue:
    """The cases that are assigned to a person; all cases where none is assigned to anybody.

    `case_ids` are of cases that have ended, in input order.
    """
    if any(one.assigned for one in standings.values()):
        case_ids = [id_ for id_ in case_ids if id_ in standings and reviewer in standings[id_].assigned]
    of = {id_: standings[id_].by_reviewer.get(reviewer) for id_ in case_ids if id_ in standings}
    done = {id_: review for id_, review in of.items() if review is not None}
    return Queue(reviewer, tuple(case_ids), done)


def queues(case_ids: Sequence[str], standings: Mapping[str, Standing]) -> list[Queue]:
    """One for everybody to whom cases are assigned, or who has labelled some."""
    found = {name for one in standings.values() for name in (*one.assigned, *one.by_reviewer)}
    return [queue_of(name, case_ids, standings) for name in sorted(found)]
