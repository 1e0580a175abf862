"""What a case's page shows of reviews: those that there are, and the form of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodes.evidence.disagreement import contested
from runs.manifest import RunError
from runs.reviews import Review, confirmed, is_stale
from runs.statuses import WAITING
from runs.trace_file import Line
from viewer.review_form import Preset, Typed, answer_changed, as_shown, changed_labels, preset

CHOICES = (("essential", "essential"), ("supplementary", "supplementary"), ("not-relevant", "not relevant"))


@dataclass(frozen=True, slots=True)
class Visit:
    """How a page is asked for.

    Attributes:
        reviewer: The name that the form starts with.
        opened: Whether the form is open.
        typed: What was sent and not taken.
        fault: Why not.
        outdated: Whether that is because the page was.
        saved: The case whose review was saved just now.
    """

    reviewer: str = ""
    opened: bool = False
    typed: Typed | None = None
    fault: str = ""
    outdated: bool = False
    saved: Review | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The label of a sentence: what the form started with, what is chosen, and the place in the form."""

    place: int
    shown: str
    chosen: str


@dataclass(frozen=True, slots=True)
class GivenReview:
    """A review that there is; `changes` are sentences with their label before and after."""

    review: Review
    when: str
    stale: bool
    changes: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Form:
    """The form; `choices` by sentence id. `unsaved` is what an outdated page's form held, by name."""

    action: str
    start: Preset
    choices: Mapping[str, Choice]
    opened: bool
    typed: Typed
    fault: str
    unsaved: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CaseReview:
    """Everything of it.

    Attributes:
        given: The reviews, latest first.
        waits: Whether the case waits for labels of a person.
        goes_on: Whether it waits no more for them, only for the run.
        contested: Ids of the sentences on which the votes of a waiting case differ.
        form: None where nothing can be written.
    """

    given: list[GivenReview]
    waits: bool
    goes_on: bool
    contested: list[str]
    saved: Review | None
    form: Form | None


def read_review(line: Line, history: Sequence[Review], action: str | None, visit: Visit) -> CaseReview:
    """What there is to show.

    Args:
        line: Of `cases.jsonl`.
        history: All reviews of the case, oldest first.
        action: Where reviews are sent to; None where nothing can be written.
        visit: How the page is asked for.
    """
    waiting = line["status"] == WAITING
    labelled = next((one for one in reversed(history) if one.labels is not None), None)
    goes_on = waiting and labelled is not None and not is_stale(labelled, line)
    return CaseReview(
        given=[_given(one, line) for one in reversed(history)],
        waits=waiting and not goes_on,
        goes_on=goes_on,
        contested=contested(line.get("vote_counts") or {}, line.get("usable_votes") or 0) if waiting else [],
        saved=visit.saved,
        form=None if action is None else _form(line, history, action, visit),
    )


def _given(review: Review, line: Line) -> GivenReview:
    shown = confirmed(review.shown_labels)
    changes: list[tuple[str, str, str]] = [
        (id_, review.shown_labels.get(id_, ""), label)
        for id_, label in (review.labels or {}).items()
        if shown.get(id_) != label
    ]
    when = review.reviewed_at[:16].replace("T", " ")
    return GivenReview(review, when, is_stale(review, line), changes)


def _form(line: Line, history: Sequence[Review], action: str, visit: Visit) -> Form:
    start = preset(line, history)
    fresh = Typed(reviewer=visit.reviewer, answer=as_shown(start.answer))
    # What was typed on an outdated page was said of something else: it is shown, and not put in again.
    kept = visit.typed is not None and not visit.outdated
    typed = visit.typed if visit.typed is not None and kept else fresh
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
