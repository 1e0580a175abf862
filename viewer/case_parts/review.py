"""Reviews on a case's page: those given, the form of the next one, and the review that a sent form makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from cases.texts import printable
from nodes.evidence.disagreement import contested
from runs.record.manifest import WAITING, RunError
from runs.record.trace_file import Line
from runs.review.reviewers import Standing
from runs.review.reviews import (
    MAX_SECONDS,
    Review,
    confirmed,
    is_stale,
    labels_to_review,
    make_review,
)
from viewer.going_on import Progress

CHOICES = (("essential", "essential"), ("supplementary", "supplementary"), ("not-relevant", "not relevant"))
Action = Literal["save", "next", "confirm"]
LABEL = "label."
"""Prefix of the fields of labels; the sentence's position follows, because ids are data."""


_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Preset:
    """Initial values of a form.

    Attributes:
        labels: By sentence id; `not-essential` is shown as `not-relevant`.
        answer: The reviewed answer, or the run's; empty if there is none.
        view: Identifies the reviewed result (`Standing.view`).
    """

    labels: Mapping[str, str]
    answer: str
    view: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A form as it was sent.

    Attributes:
        labels: By position of the sentence among those with labels.
        seconds: How long the page was read; None where the browser did not measure it.
    """

    reviewer: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    comment: str = ""
    labels_right: bool = False
    answer_right: bool = False
    view: str = ""
    action: Action = "save"
    seconds: float | None = None


def read_form(fields: Iterable[tuple[str, str]]) -> Typed:
    """Read the fields of a form; unknown ones are ignored, and line ends become those of files."""
    named = {name: _lines(value) for name, value in fields}
    actions: dict[str, Action] = {"next": "next", "confirm": "confirm"}
    return Typed(
        reviewer=named.get("reviewer", "").strip(),
        labels={name.removeprefix(LABEL): one for name, one in named.items() if name.startswith(LABEL)},
        answer=named.get("answer", ""),
        comment=named.get("comment", "").strip(),
        labels_right="labels_right" in named,
        answer_right="answer_right" in named,
        view=named.get("view", ""),
        action=actions.get(named.get("action", ""), "save"),
        seconds=read_seconds(named.get("seconds", "")),
    )


def read_seconds(text: str) -> float | None:
    """Seconds as a page counts them; None for anything else."""
    return min(float(text), MAX_SECONDS) if _SECONDS.fullmatch(text) else None


def preset(line: Line, standing: Standing) -> Preset:
    """Initial values of a case's form."""
    history = standing.history
    answered = next((one for one in reversed(history) if one.answer is not None), None)
    answer = line.get("answer") or ""
    if answered is not None and answered.answer is not None and not is_stale(answered, line):
        answer = answered.answer
    labels = confirmed(labels_to_review(line, standing.last_labels))
    return Preset(labels, answer, standing.view(line))


def review_of(line: Line, standing: Standing, typed: Typed) -> Review:
    """The review that a sent form makes.

    Raises:
        Outdated: The case has another result, or another review, than the page showed.
        RunError: The form is invalid.
    """
    standing.demand_view(line, typed.view)
    start = preset(line, standing)
    confirms = typed.action == "confirm"
    labels = changed_labels(start, typed)
    has_labels = bool(labels) or typed.labels_right or (confirms and bool(start.labels))
    answer = typed.answer if answer_changed(start, typed) else None
    if answer is None and (typed.answer_right or confirms):
        answer = start.answer or None
    return make_review(
        line,
        reviewer=typed.reviewer,
        labels=labels if has_labels else None,
        answer=answer,
        comment=typed.comment,
        earlier=standing.last_labels,
        seconds=typed.seconds,
    )


def changed_labels(start: Preset, typed: Typed) -> dict[str, str]:
    """Labels that the reviewer changed, by sentence id.

    Raises:
        RunError: The form names a sentence that the case does not have.
    """
    ids = list(start.labels)
    changed = {}
    for place, label in typed.labels.items():
        if not (place.isdecimal() and place.isascii() and int(place[:9]) < len(ids)):
            raise RunError(f"the form names a sentence {place[:40]!r}; the case has {len(ids):,} with labels")
        id_ = ids[int(place[:9])]
        if label != start.labels[id_]:
            changed[id_] = label
    return changed


def answer_changed(start: Preset, typed: Typed) -> bool:
    """Whether the answer differs from the one that the page showed, as far as a page can show it."""
    return typed.answer.strip() != as_shown(start.answer).strip()


def as_shown(text: str) -> str:
    """A text as a form shows it and sends it back."""
    return printable(_lines(text))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class Visit:
    """How a case's page is requested.

    Attributes:
        typed: A form that was sent and rejected.
        going: Progress of reviewed cases that continue automatically; None if none does.
        writes: Whether the current user may save reviews.
        names: Whether they may see the case's other reviewers.
    """

    reviewer: str = ""
    opened: bool = False
    typed: Typed | None = None
    fault: str = ""
    outdated: bool = False
    saved: Review | None = None
    going: Progress | None = None
    resumes: bool = False
    writes: bool = True
    names: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """The label of a sentence in the form: its position, the label shown at first, and the chosen one."""

    place: int
    shown: str
    chosen: str


@dataclass(frozen=True, slots=True)
class GivenReview:
    """A saved review; `changes` are sentences with their label before and after."""

    review: Review
    when: str
    stale: bool
    changes: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Form:
    """The form; `choices` by sentence id, `unsaved` input from an outdated page, by name."""

    action: str
    start: Preset
    choices: Mapping[str, Choice]
    opened: bool
    typed: Typed
    fault: str
    unsaved: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CaseReview:
    """All that a page shows of reviews.

    Attributes:
        given: The saved reviews, latest first.
        goes_on: Whether it has them and only waits for the run to go on.
        contested: Ids of the sentences on which votes of a waiting case differ.
        missing: Names of those who are still to label an assigned case.
        differing: Ids of the sentences on which its reviewers differ, without a decision between them.
        form: None where nothing can be written.
    """

    given: list[GivenReview]
    waits: bool
    goes_on: bool
    contested: list[str]
    missing: list[str]
    differing: list[str]
    saved: Review | None
    form: Form | None


def read_review(line: Line, standing: Standing, action: str | None, visit: Visit) -> CaseReview:
    """Read all that the page of a case shows of reviews."""
    waiting = line["status"] == WAITING
    history, counting = standing.history, standing.counting
    goes_on = waiting and counting is not None and not is_stale(counting, line)
    return CaseReview(
        given=[_given(one, line) for one in reversed(history)],
        waits=waiting and not goes_on,
        goes_on=goes_on,
        contested=contested(line.get("vote_counts") or {}, line.get("usable_votes") or 0) if waiting else [],
        missing=standing.missing if visit.names or not standing.missing else ["others"],
        differing=standing.differing if standing.undecided else [],
        saved=visit.saved,
        form=None if action is None or not visit.writes else _form(line, standing, action, visit),
    )


def _given(review: Review, line: Line) -> GivenReview:
    shown = confirmed(review.shown_labels)
    changes: list[tuple[str, str, str]] = [
        (id_, review.shown_labels.get(id_, ""), label)
        for id_, label in (review.labels or {}).items()
        if shown and shown.get(id_) != label
    ]
    when = review.reviewed_at[:16].replace("T", " ")
    return GivenReview(review, when, is_stale(review, line), changes)


def _form(line: Line, standing: Standing, action: str, visit: Visit) -> Form:
    start = preset(line, standing)
    fresh = Typed(reviewer=visit.reviewer, answer=as_shown(start.answer))
    # Input on an outdated page was about another result: it is listed, and not filled in again.
    typed = fresh if visit.typed is None or visit.outdated else visit.typed
    choices = {
        id_: Choice(place, label, typed.labels.get(str(place), label))
        for place, (id_, label) in enumerate(start.labels.items())
    }
    unsaved = _unsaved(start, visit.typed) if visit.typed is not None and visit.outdated else []
    return Form(action, start, choices, visit.opened, typed, visit.fault, unsaved)


def _unsaved(start: Preset, typed: Typed) -> list[tuple[str, str]]:
    try:
        labels = changed_labels(start, typed)
    except RunError:
        labels = {}
    found = [(f"sentence {id_}", label.replace("-", " ")) for id_, label in labels.items()]
    if answer_changed(start, typed):
        found.append(("answer", typed.answer))
    return [*found, *([("comment", typed.comment)] if typed.comment else []), ("name", typed.reviewer)]
